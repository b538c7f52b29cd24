#include <algorithm>
#include <system_error>

#include "finetune/checkpoint/pretrained.h"
#include "finetune/checkpoint/python_checkpoint.h"
#include "finetune/checkpoint/safetensors.h"
#include "finetune/checkpoint/store.h"
#include "finetune/core/error.h"
#include "finetune/core/text.h"
#include "finetune/train/memory_plan.h"
#include "inspect.h"

namespace finetune::cli {
namespace {

namespace fs = std::filesystem;

bool has(const fs::path& folder, const char* name) {
  std::error_code ignored;
  return fs::exists(folder / name, ignored);
}

Json tensor_json(const std::string& name, const std::string& dtype, const std::vector<int64_t>& shape,
                 int64_t bytes) {
  return {{"name", name}, {"dtype", dtype}, {"shape", shape}, {"bytes", bytes}};
}

/// Adds the tensors of one file, and their sums.
void add_tensors(Json& description, Json tensors) {
  int64_t elements = 0;
  int64_t bytes = 0;
  for (const Json& tensor : tensors) {
    int64_t count = 1;
    for (const Json& size : tensor.at("shape")) count *= size.get<int64_t>();
    elements += count;
    bytes += tensor.at("bytes").get<int64_t>();
  }
  description["elements"] = elements;
  description["bytes"] = bytes;
  description["tensors"] = std::move(tensors);
}

Json describe_safetensors(const fs::path& path) {
  const SafetensorsFile file(path);
  Json description{{"kind", "safetensors"}, {"path", path.string()}, {"metadata", file.metadata()}};
  Json tensors = Json::array();
  for (const auto& entry : file.entries()) {
    tensors.push_back(tensor_json(entry.name, c10::toString(entry.dtype), entry.sizes,
                                  static_cast<int64_t>(entry.end - entry.begin)));
  }
  add_tensors(description, std::move(tensors));
  return description;
}

Json describe_python(const fs::path& path) {
  const PythonCheckpoint file = read_python_checkpoint(path);
  Json description{{"kind", "torch.save"}, {"path", path.string()}};
  if (!file.weights_key.empty()) description["weights_key"] = file.weights_key;
  if (file.epoch) description["epoch"] = *file.epoch;
  if (file.optimizer) {
    description["optimizer"] = {{"groups", file.optimizer->groups.size()},
                                {"parameters_with_moments", file.optimizer->moments.size()}};
  }
  if (!file.remarks.empty()) description["remarks"] = file.remarks;
  Json tensors = Json::array();
  for (const auto& [name, tensor] : file.weights) {
    tensors.push_back(tensor_json(name, c10::toString(tensor.scalar_type()), tensor.sizes().vec(),
                                  static_cast<int64_t>(tensor.nbytes())));
  }
  add_tensors(description, std::move(tensors));
  return description;
}

Json describe_run_checkpoint(const fs::path& path) {
  const VerifiedCheckpoint checkpoint = verify_checkpoint(path);
  Json description = describe_safetensors(path / "model.safetensors");
  description["kind"] = "checkpoint";
  description["path"] = path.string();
  description["step"] = checkpoint.step;
  for (const char* key : {"epoch", "task", "labels", "num_steps", "precision"}) {
    if (checkpoint.state.contains(key)) description[key] = checkpoint.state.at(key);
  }
  description["optimizer"] = {{"tensors", SafetensorsFile(path / "optimizer.safetensors").entries().size()}};
  return description;
}

Json describe_model_directory(const fs::path& path) {
  const Json config = read_model_config(path);
  Json description{{"kind", "model directory"}, {"path", path.string()}};
  if (has(path, "model.safetensors")) {
    description.update(describe_safetensors(path / "model.safetensors"));
  } else if (has(path, "pytorch_model.bin")) {
    description.update(describe_python(path / "pytorch_model.bin"));
  }
  description["kind"] = "model directory";
  description["path"] = path.string();
  for (const char* key : {"model_type", "architectures", "hidden_size", "num_hidden_layers", "vocab_size",
                          "max_position_embeddings", "id2label", "problem_type"}) {
    if (config.contains(key)) description[key] = config.at(key);
  }
  return description;
}

/// A run's own folder stands for its newest checkpoint.
fs::path newest_checkpoint(const fs::path& checkpoints) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(checkpoints)) {
    const bool is_link = entry.is_symlink();
    if (!is_link && has(entry.path(), "MANIFEST.json")) found.push_back(entry.path());
  }
  if (found.empty()) throw CheckpointError(checkpoints.string() + ": no checkpoint in it, expected step-*");
  return *std::max_element(found.begin(), found.end());
}

}  // namespace

bool is_checkpoint_path(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    return has(path, "MANIFEST.json") || has(path, "config.json") || has(path, "checkpoints");
  }
  const std::string extension = path.extension().string();
  return extension == ".safetensors" || extension == ".pth" || extension == ".pt" || extension == ".bin" ||
         extension == ".ckpt";
}

Json describe_checkpoint(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    throw CheckpointError(path.string() + ": no such file; check the path");
  }
  if (has(path, "MANIFEST.json")) return describe_run_checkpoint(path);
  if (has(path, "checkpoints")) return describe_run_checkpoint(newest_checkpoint(path / "checkpoints"));
  if (fs::is_directory(path, ignored)) return describe_model_directory(path);
  return path.extension() == ".safetensors" ? describe_safetensors(path) : describe_python(path);
}

std::string checkpoint_text(const Json& description) {
  std::string text =
      description.at("path").get<std::string>() + ": " + description.at("kind").get<std::string>() + "\n";
  for (const auto& [key, value] : description.items()) {
    if (key == "path" || key == "kind" || key == "tensors" || key == "elements" || key == "bytes") continue;
    text += "  " + key + ": " + (value.is_string() ? value.get<std::string>() : value.dump()) + "\n";
  }
  if (!description.contains("tensors")) return text;
  text += "  " + with_thousands(static_cast<long long>(description.at("tensors").size())) + " tensors, " +
          with_thousands(description.at("elements").get<int64_t>()) + " elements, " +
          bytes_text(description.at("bytes").get<int64_t>()) + "\n";
  for (const Json& tensor : description.at("tensors")) {
    text += "    " + tensor.at("name").get<std::string>() + "  " + tensor.at("dtype").get<std::string>() +
            " " + tensor.at("shape").dump() + "\n";
  }
  return text;
}

}  // namespace finetune::cli
