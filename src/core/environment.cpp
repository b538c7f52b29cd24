#include "finetune/core/environment.h"

#include <cstdlib>

namespace finetune {

std::optional<std::filesystem::path> environment_path(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::filesystem::path(value);
}

std::filesystem::path user_cache_folder() {
  if (const auto folder = environment_path("XDG_CACHE_HOME")) return *folder;
  return environment_path("HOME").value_or("/") / ".cache";
}

}  // namespace finetune
