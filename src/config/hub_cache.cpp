#include "hub_cache.h"

#include <algorithm>
#include <fstream>
#include <system_error>
#include <vector>

#include "finetune/core/environment.h"

namespace finetune::config {
namespace fs = std::filesystem;

bool may_be_hub_id(std::string_view text) {
  char previous = '/';
  for (const char c : text) {
    const bool first = previous == '/';
    const bool letter =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    if (c == '/' ? first : !(letter || (!first && (c == '-' || c == '.')))) return false;
    previous = c;
  }
  return previous != '/' && std::count(text.begin(), text.end(), '/') <= 1;
}

fs::path hub_cache_folder() {
  if (const auto folder = environment_path("HF_HUB_CACHE")) return *folder;
  if (const auto folder = environment_path("HF_HOME")) return *folder / "hub";
  return user_cache_folder() / "huggingface" / "hub";
}

std::optional<fs::path> find_in_hub_cache(const std::string& id) {
  std::string folder = "models--" + id;
  if (const size_t slash = folder.find('/'); slash != std::string::npos) folder.replace(slash, 1, "--");
  const fs::path model = fs::absolute(hub_cache_folder() / folder);
  std::ifstream reference(model / "refs" / "main");
  std::string revision;
  std::error_code ignored;
  if (reference >> revision && fs::is_directory(model / "snapshots" / revision, ignored)) {
    return model / "snapshots" / revision;
  }
  std::vector<fs::path> snapshots;
  for (const auto& entry : fs::directory_iterator(model / "snapshots", ignored))
    snapshots.push_back(entry.path());
  if (snapshots.size() != 1) return std::nullopt;
  return snapshots.front();
}

std::vector<std::string> models_in_hub_cache() {
  constexpr std::string_view kPrefix = "models--";
  std::vector<std::string> ids;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(hub_cache_folder(), ignored)) {
    std::string id = entry.path().filename().string();
    if (!id.starts_with(kPrefix)) continue;
    id.erase(0, kPrefix.size());
    if (const size_t dashes = id.find("--"); dashes != std::string::npos) id.replace(dashes, 2, "/");
    if (may_be_hub_id(id) && find_in_hub_cache(id)) ids.push_back(std::move(id));
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

}  // namespace finetune::config
