#pragma once

#include <ATen/core/Tensor.h>

#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "finetune/checkpoint/pth.h"
#include "finetune/checkpoint/safetensors.h"
#include "finetune/config/run_config.h"
#include "finetune/core/json.h"

namespace finetune {

/// A JSON file that must hold an object. Throws `CheckpointError`.
Json read_json_object(const std::filesystem::path& path);

/// A tensor of a weights file.
struct WeightEntry {
  std::string name;
  std::filesystem::path file;
  at::ScalarType dtype;
  std::vector<int64_t> sizes;
  /// Copies it into a tensor of the same shape, on any device; floating dtypes are converted.
  std::function<void(const at::Tensor& destination)> fill;
};

/// The weights of a Hugging Face directory: model.safetensors, the parts that model.safetensors.index.json
/// names, or pytorch_model.bin, whole or in parts; in this order, the first that is there.
class PretrainedWeights {
 public:
  /// Opens and checks all files; copies nothing. `rename` tells what foreign names mean. Throws
  /// `CheckpointError`.
  explicit PretrainedWeights(const std::filesystem::path& directory, std::vector<Rename> rename = {});

  /// Tensors of a file that is open already, which must outlive this object.
  PretrainedWeights(const std::filesystem::path& file, const NamedTensors& tensors,
                    std::vector<Rename> rename);

  /// Looks for the name as it is written, then for one that means the same.
  const WeightEntry* find(const std::string& name) const;

  /// By the name as it is written.
  const std::map<std::string, WeightEntry>& entries() const { return written_; }

 private:
  void open(const std::filesystem::path& path);
  void add(const std::filesystem::path& file, const NamedTensors& tensors);
  void add(WeightEntry entry);

  std::vector<Rename> rename_;
  std::deque<SafetensorsFile> safetensors_;
  std::deque<PthFile> pickles_;
  std::map<std::string, WeightEntry> written_;
  std::map<std::string, const WeightEntry*>
      modern_;  ///< names that are not written as today's models have them
};

}  // namespace finetune
