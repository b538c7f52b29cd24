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

[[noreturn]] void throw_nothing_matched(const fs::path& directory, const PretrainedWeights& weights,
                                        const NamedTensors& parameters, const std::string& base_prefix) {
  std::vector<std::string> in_file, in_model;
  for (const auto& [name, entry] : weights.entries()) in_file.push_back(name);
  for (const auto& parameter : parameters) {
    if (parameter.name.starts_with(base_prefix)) in_model.push_back(parameter.name);
  }
  throw CheckpointError("no tensor in " + directory.string() +
                        " has the name of an encoder parameter, so the encoder would " +
                        "be trained from random weights. The file has: " + join_some(in_file, 5) +
                        "; the model expects: " + join_some(in_model, 5) +
                        ". Give the weights of the same model family as config.json says");
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

LoadReport load_pretrained(const fs::path& directory, const NamedTensors& parameters,
                           const std::string& base_prefix) {
  require_folder(directory);
  const PretrainedWeights weights(directory);
  LoadReport report;
  std::vector<std::pair<const WeightEntry*, const NamedTensor*>> matches;
  std::vector<std::string> problems;
  std::set<const WeightEntry*> used;
  bool encoder_found = false, encoder_mismatch = false;
  for (const auto& parameter : parameters) {
    const WeightEntry* found = match(weights, parameter.name, base_prefix);
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
  }
  if (!encoder_found) throw_nothing_matched(directory, weights, parameters, base_prefix);
  if (!problems.empty()) throw_mismatches(directory, problems, encoder_mismatch);
  for (const auto& [name, entry] : weights.entries()) {
    // Older versions of transformers stored this buffer, a plain count, with the weights.
    const bool buffer = name.ends_with("embeddings.position_ids");
    if (!used.contains(&entry) && !buffer) report.unexpected.push_back(name);
  }
  for (const auto& [entry, parameter] : matches) entry->fill(parameter->tensor);
  return report;
}

}  // namespace finetune
