#include "model_choice.h"

#include <algorithm>
#include <system_error>

#include "config/hub_cache.h"
#include "finetune/checkpoint/pretrained.h"
#include "finetune/core/error.h"
#include "finetune/core/text.h"

namespace finetune::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostFoldersSearched = 200;

bool holds_weights(const fs::path& directory) {
  std::error_code ignored;
  for (const char* name : {"model.safetensors", "pytorch_model.bin", "model.safetensors.index.json",
                           "pytorch_model.bin.index.json"}) {
    if (fs::exists(directory / name, ignored)) return true;
  }
  return false;
}

ModelChoice read_model(const std::string& name, const fs::path& directory) {
  return {.name = name,
          .directory = directory,
          .encoder = read_encoder_config(read_model_config(directory), ModelConfig{}),
          .has_weights = holds_weights(directory)};
}

/// What is no model, or none that is known here, is passed over.
void add_model(const std::string& name, const fs::path& directory, std::vector<ModelChoice>& models) {
  std::error_code ignored;
  if (!fs::exists(directory / "config.json", ignored)) return;
  try {
    models.push_back(read_model(name, directory));
  } catch (const Error&) {
  }
}

void add_folders_of(const fs::path& folder, std::vector<ModelChoice>& models) {
  std::vector<fs::path> folders;
  std::error_code error;
  for (fs::directory_iterator entries(folder, error); !error && entries != fs::directory_iterator();
       entries.increment(error)) {
    std::error_code ignored;
    if (folders.size() < kMostFoldersSearched && entries->is_directory(ignored))
      folders.push_back(entries->path());
  }
  std::sort(folders.begin(), folders.end());
  for (const fs::path& path : folders) add_model(path.lexically_normal().string(), path, models);
}

}  // namespace

ModelChoice find_model(const std::string& name) {
  std::error_code ignored;
  if (fs::exists(name, ignored)) return read_model(name, name);
  if (config::may_be_hub_id(name)) {
    if (const auto cached = config::find_in_hub_cache(name)) return read_model(name, *cached);
  }
  std::vector<std::string> known;
  for (const ModelChoice& model : models_at_hand()) known.push_back(model.name);
  const auto near = nearest_name(name, known);
  throw ConfigError(
      "--model " + name + ": there is no such folder, and no such model in the Hugging Face cache " +
      config::hub_cache_folder().string() +
      (near            ? "; did you mean " + *near + "?"
       : known.empty() ? "; download one: hf download " +
                             (config::may_be_hub_id(name) ? name : "google-bert/bert-base-uncased")
                       : "; there are " + join_some(known)));
}

std::vector<ModelChoice> models_at_hand() {
  std::vector<ModelChoice> models;
  add_model(".", ".", models);
  add_folders_of("models", models);
  add_folders_of(".", models);
  for (const std::string& id : config::models_in_hub_cache()) {
    if (const auto cached = config::find_in_hub_cache(id)) add_model(id, *cached, models);
  }
  return models;
}

}  // namespace finetune::cli
