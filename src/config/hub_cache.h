#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace finetune::config {

/// Whether `text` is spelt like a model on Hugging Face's hub: `name` or `organisation/name`.
bool may_be_hub_id(std::string_view text);

/// The folder in which the tools of Hugging Face keep downloaded models: HF_HUB_CACHE, else HF_HOME/hub, else
/// the user's cache folder.
std::filesystem::path hub_cache_folder();

/// The folder of a downloaded model: the revision that `main` meant when it was downloaded, else the only one
/// there.
std::optional<std::filesystem::path> find_in_hub_cache(const std::string& id);

/// The ids of all models that `find_in_hub_cache` finds, in byte order.
std::vector<std::string> models_in_hub_cache();

}  // namespace finetune::config
