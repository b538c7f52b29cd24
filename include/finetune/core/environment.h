#pragma once

#include <filesystem>
#include <optional>

namespace finetune {

/// The path in an environment variable; nothing where it is unset or empty.
std::optional<std::filesystem::path> environment_path(const char* name);

/// The user's folder for what programs can make again: $XDG_CACHE_HOME, else ~/.cache.
std::filesystem::path user_cache_folder();

}  // namespace finetune
