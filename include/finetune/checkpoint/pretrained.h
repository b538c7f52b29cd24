#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "finetune/checkpoint/named_tensor.h"
#include "finetune/checkpoint/python_checkpoint.h"
#include "finetune/config/run_config.h"
#include "finetune/core/json.h"

namespace finetune {

/// How the names in a weights file met the model's.
struct LoadReport {
  std::vector<std::string> loaded;      ///< the model's names
  std::vector<std::string> missing;     ///< in the model, not in the file: they keep their initial values
  std::vector<std::string> unexpected;  ///< the file's names that are of no use to the model
  std::map<std::string, std::string> written;  ///< of each name in `loaded`: as the file has it
};

/// `config.json` of a Hugging Face directory. Throws `CheckpointError` (no such folder, no file, not a JSON
/// object).
Json read_model_config(const std::filesystem::path& directory);

/// Fills `parameters` from the weights of a Hugging Face directory (model.safetensors, else
/// pytorch_model.bin, whole or in the parts that an index names). Names are matched as written, with and
/// without `base_prefix` ("bert."), as `rename` makes them, without `module.`/`_orig_mod.`, and with
/// LayerNorm's old names gamma/beta. All shapes are checked before the first byte is copied. Throws
/// `CheckpointError` for a missing or damaged file, wrong shapes (all of them, both sizes given), or where no
/// parameter under `base_prefix` matches: training never starts from random weights in silence.
LoadReport load_pretrained(const std::filesystem::path& directory, const NamedTensors& parameters,
                           const std::string& base_prefix, const std::vector<Rename>& rename = {});

/// The same from a .pth that is to be gone on from, so it must hold every parameter. Throws `CheckpointError`
/// with the parameters that are missing, and the renames that shapes suggest.
LoadReport load_python_weights(const PythonCheckpoint& checkpoint, const NamedTensors& parameters,
                               const std::string& base_prefix, const std::vector<Rename>& rename);

/// Puts further files (tokenizer files, finetune.json, README.md) into the folder it is given.
using WriteExtra = std::function<void(const std::filesystem::path& directory)>;

/// Replaces `directory` as a whole by one that holds config.json, model.safetensors and what `write_extra`
/// adds. A reader, or a machine that loses power, sees the old or the new directory; on a file system that
/// cannot exchange two names there is an instant with neither, and the old one lies beside. Throws
/// `CheckpointError` (no space left, ...); the old one stays then.
void export_model_directory(const std::filesystem::path& directory, const Json& model_config,
                            const NamedTensors& weights, const WriteExtra& write_extra);

/// The same for a folder in PEFT's format: adapter_config.json and adapter_model.safetensors.
void export_adapter_directory(const std::filesystem::path& directory, const Json& adapter_config,
                              const NamedTensors& weights);

}  // namespace finetune
