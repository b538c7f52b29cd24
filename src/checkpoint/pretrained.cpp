#include "finetune/checkpoint/pretrained.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "finetune/core/error.h"
#include "finetune/core/file.h"
#include "finetune/core/text.h"
#include "pretrained_weights.h"
#include "tensor_bytes.h"
#include "weight_names.h"

namespace finetune {
namespace {

namespace fs = std::filesystem;

void require_folder(const fs::path& directory) {
  if (fs::is_directory(directory)) return;
  throw CheckpointError(
      directory.string() + (fs::exists(directory) ? " is a file" : " does not exist") +
      ", expected a Hugging Face model directory (config.json, model.safetensors, tokenizer files)");
}

/// The entry for a parameter, under its own name or with the base prefix taken off or put on; a wrapper that
/// keeps the model as its member `model` may be around it.
const WeightEntry* match(const PretrainedWeights& weights, const std::string& name,
                         const std::string& base_prefix) {
  std::vector<std::string> names{name};
  if (!base_prefix.empty()) {
    names.push_back(name.starts_with(base_prefix) ? name.substr(base_prefix.size()) : base_prefix + name);
  }
  for (const char* wrapper : {"", "model."}) {
    for (const std::string& candidate : names) {
      if (const auto* found = weights.find(wrapper + candidate)) return found;
    }
  }
  return nullptr;
}

/// What keeps an entry from filling a parameter, or nothing.
std::optional<std::string> mismatch(const NamedTensor& parameter, const WeightEntry& entry) {
  const std::string written = entry.name == parameter.name ? "" : " ('" + entry.name + "' in the file)";
  if (parameter.tensor.sizes() != at::IntArrayRef(entry.sizes)) {
    return parameter.name + written + ": the file has shape " + shape_text(entry.sizes) +
           ", the model expects " + shape_text(parameter.tensor.sizes());
  }
  const bool floating =
      c10::isFloatingType(entry.dtype) && c10::isFloatingType(parameter.tensor.scalar_type());
  if (entry.dtype != parameter.tensor.scalar_type() && !floating) {
    return parameter.name + written + ": the file has dtype " +
           std::string(safetensors_dtype_name(entry.dtype)) + ", the model expects " +
           c10::toString(parameter.tensor.scalar_type());
  }
  return std::nullopt;
}

/// What to do about tensors under other names than the parameters in `missing`.
std::string rename_advice(const PretrainedWeights& weights, const std::set<const WeightEntry*>& used,
                          const NamedTensors& parameters, const std::vector<std::string>& missing,
                          const std::vector<Rename>& rename) {
  std::vector<NamedShape> found, wanted;
  for (const auto& [name, entry] : weights.entries()) {
    if (!used.contains(&entry)) found.push_back({modern_name(name, rename), entry.sizes});
  }
  const std::set<std::string_view> absent(missing.begin(), missing.end());
  for (const auto& [name, tensor] : parameters) {
    if (absent.contains(name)) wanted.push_back({name, tensor.sizes().vec()});
  }
  std::vector<Rename> rules = suggest_renames(found, wanted);
  const std::string same_family = "Give the weights of the same model family as config.json says";
  if (rules.empty()) return same_family;
  rules.insert(rules.begin(), rename.begin(), rename.end());
  return same_family + ". If these are such under other names, by their shapes: put " + to_text(rules) +
         " into the config's model section";
}

[[noreturn]] void throw_mismatches(const fs::path& directory, const std::vector<std::string>& problems,
                                   bool in_encoder) {
  std::string message = "the weights in " + directory.string() + " do not fit the model:";
  for (const auto& problem : problems) message += "\n  " + problem;
  message +=
      in_encoder
          ? "\nconfig.json and the weights do not belong together: take both from the same model"
          : "\nThe encoder fits; the head was trained for another number of labels. Give task.labels the "
            "labels of "
            "id2label in its config.json, or set model.path to the encoder that it was fine-tuned from";
  throw CheckpointError(message);
}

}  // namespace

Json read_model_config(const fs::path& directory) {
  require_folder(directory);
  const fs::path path = directory / "config.json";
  if (!fs::exists(path)) {
    throw CheckpointError(directory.string() +
                          " has no config.json; give the path of a Hugging Face model directory");
  }
  return read_json_object(path);
}

namespace {

/// Where weights come from and how they are to be taken.
struct Source {
  const fs::path& path;
  const PretrainedWeights& weights;
  const std::vector<Rename>& rename;
  bool whole;  ///< every parameter must be there
};

LoadReport load(const Source& source, const NamedTensors& parameters, const std::string& base_prefix) {
  LoadReport report;
  std::vector<std::pair<const WeightEntry*, const NamedTensor*>> matches;
  std::vector<std::string> problems;
  std::set<const WeightEntry*> used;
  bool encoder_found = false, encoder_mismatch = false;
  for (const auto& parameter : parameters) {
    const WeightEntry* found = match(source.weights, parameter.name, base_prefix);
    if (found == nullptr) {
      report.missing.push_back(parameter.name);
      continue;
    }
    const bool in_encoder = parameter.name.starts_with(base_prefix);
    encoder_found |= in_encoder;
    used.insert(found);
    if (auto problem = mismatch(parameter, *found)) {
      problems.push_back(std::move(*problem));
      encoder_mismatch |= in_encoder;
    }
    matches.emplace_back(found, &parameter);
    report.loaded.push_back(parameter.name);
    report.written.emplace(parameter.name, found->name);
  }
  for (const auto& [name, entry] : source.weights.entries()) {
    // Older versions of transformers stored this buffer, a plain count, with the weights.
    const bool buffer = name.ends_with("embeddings.position_ids");
    if (!used.contains(&entry) && !buffer) report.unexpected.push_back(name);
  }
  if (!encoder_found || (source.whole && !report.missing.empty())) {
    const std::string what =
        encoder_found
            ? source.path.string() + " lacks parameters of the model, so the run cannot go on from it"
            : "no tensor in " + source.path.string() +
                  " has the name of an encoder parameter, so the encoder would be trained from "
                  "random weights";
    throw CheckpointError(what + ". The file has: " + join_some(report.unexpected, 5) +
                          "; the model expects: " + join_some(report.missing, 5) + ". " +
                          rename_advice(source.weights, used, parameters, report.missing, source.rename));
  }
  if (!problems.empty()) throw_mismatches(source.path, problems, encoder_mismatch);
  for (const auto& [entry, parameter] : matches) entry->fill(parameter->tensor);
  return report;
}

}  // namespace

LoadReport load_pretrained(const fs::path& directory, const NamedTensors& parameters,
                           const std::string& base_prefix, const std::vector<Rename>& rename) {
  require_folder(directory);
  const PretrainedWeights weights(directory, rename);
  return load({directory, weights, rename, false}, parameters, base_prefix);
}

LoadReport load_python_weights(const PythonCheckpoint& checkpoint, const NamedTensors& parameters,
                               const std::string& base_prefix, const std::vector<Rename>& rename) {
  const fs::path& path = checkpoint.file->path();
  const PretrainedWeights weights(path, checkpoint.weights, rename);
  return load({path, weights, rename, true}, parameters, base_prefix);
}

}  // namespace finetune
