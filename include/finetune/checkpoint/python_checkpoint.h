#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "finetune/checkpoint/adam_state.h"
#include "finetune/checkpoint/named_tensor.h"
#include "finetune/checkpoint/pth.h"
#include "finetune/checkpoint/store.h"

namespace finetune {

/// What a training script saves by
/// `torch.save({"net": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, path)`.
struct PythonCheckpoint {
  std::string weights_key =
      "net";             ///< also `model`, `state_dict`, `model_state_dict`; empty: nothing but weights
  NamedTensors weights;  ///< in the file's order, by its names
  std::optional<AdamState> optimizer;
  std::optional<int64_t> epoch;  ///< epochs finished
  /// What a reader should tell: moments in low precision, parameters without state, ...
  std::vector<std::string> remarks;
  /// The mapped file that tensors which were read look into.
  std::shared_ptr<const PthFile> file;
};

/// Reads a .pth. Moments are given to parameters by `param_names` where the file has them, else by the order
/// of the state dict and by shapes, and only where that leaves one way. Throws `CheckpointError` for a file
/// that is damaged, the state of another optimizer, moments of another shape than their parameter, or more
/// than one way to tell whose they are.
PythonCheckpoint read_python_checkpoint(const std::filesystem::path& path);

/// Writes `checkpoint` as torch.save does (zip format, pickle protocol 2), so that `torch.load(path,
/// weights_only=True)` gives the dict and `load_state_dict` takes its parts. Replaces `path` as a whole, or
/// not at all. Tensors may live on any device. Throws `CheckpointError` (no space left, ...).
void write_python_checkpoint(const std::filesystem::path& path, const PythonCheckpoint& checkpoint);

/// How a run's checkpoint is laid out for a Python script.
struct PythonLayout {
  std::string weights_key = "net";
  std::vector<std::string> parameters;       ///< the run's names in the model's order
  std::map<std::string, std::string> names;  ///< what the script calls some of them
  std::vector<AdamGroup> groups;             ///< by the script's names
  std::optional<int64_t> epoch;
};

/// A run's checkpoint as a Python script has it, copied to the host. `optimizer` is unset where the run's was
/// not Adam. Throws `CheckpointError`.
PythonCheckpoint to_python(const VerifiedCheckpoint& checkpoint, const PythonLayout& layout);

/// The tensors of a weights file (.safetensors, or of torch.save) or of a Hugging Face directory, copied to
/// the host, by the names that they have there. Throws `CheckpointError`.
NamedTensors read_weights(const std::filesystem::path& path);

}  // namespace finetune
