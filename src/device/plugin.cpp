#include "finetune/device/plugin.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

namespace finetune {
namespace {

std::vector<std::filesystem::path> plugin_folders() {
  std::vector<std::filesystem::path> folders;
  if (const char* chosen = std::getenv("FINETUNE_PLUGIN_PATH")) folders.emplace_back(chosen);
  std::error_code error;
  const auto binary = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) {
    folders.push_back(binary.parent_path());
    folders.push_back(binary.parent_path().parent_path() / "lib");
  }
  return folders;
}

/// Asks the driver alone whether there is a GPU: no LibTorch call may come before the plugin is loaded.
bool cuda_device_present(std::string* why_not) {
  void* driver = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver == nullptr) {
    *why_not = "no NVIDIA driver (libcuda.so.1) on this machine";
    return false;
  }
  const auto init = reinterpret_cast<int (*)(unsigned)>(::dlsym(driver, "cuInit"));
  const auto count = reinterpret_cast<int (*)(int*)>(::dlsym(driver, "cuDeviceGetCount"));
  int num_devices = 0;
  if (init == nullptr || count == nullptr || init(0) != 0 || count(&num_devices) != 0 || num_devices == 0) {
    *why_not = "the NVIDIA driver reports no device (is CUDA_VISIBLE_DEVICES empty?)";
    return false;
  }
  return true;
}

std::string plugin_name(const std::string& type) { return "libfinetune_" + type + ".so"; }

struct Loaded {
  const DevicePlugin* plugin = nullptr;
  std::string why_not;
};

Loaded load(const std::string& type) {
  Loaded result;
  if (type == "cuda" && !cuda_device_present(&result.why_not)) return result;
  const auto path = find_device_plugin(type);
  if (!path) {
    result.why_not =
        plugin_name(type) + " not found beside the binary: this is a build without support for " + type;
    return result;
  }
  void* library = ::dlopen(path->c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    result.why_not = ::dlerror();
    return result;
  }
  const auto entry = reinterpret_cast<DevicePluginEntry>(::dlsym(library, "finetune_device_plugin"));
  if (entry == nullptr) {
    result.why_not = path->string() + " has no finetune_device_plugin: it was built for another version";
    return result;
  }
  const char* reason = "unknown";
  result.plugin = entry(&reason);
  if (result.plugin == nullptr) result.why_not = reason;
  return result;
}

}  // namespace

std::optional<std::filesystem::path> find_device_plugin(const std::string& type) {
  for (const auto& folder : plugin_folders()) {
    auto path = folder / plugin_name(type);
    if (std::filesystem::exists(path)) return path;
  }
  return std::nullopt;
}

const DevicePlugin* load_device_plugin(const std::string& type, std::string* why_not) {
  static std::mutex mutex;
  static std::map<std::string, Loaded> loaded;  // a library is loaded once for the life of the process
  const std::lock_guard lock(mutex);
  const auto [entry, is_new] = loaded.try_emplace(type);
  if (is_new) entry->second = load(type);
  *why_not = entry->second.why_not;
  return entry->second.plugin;
}

}  // namespace finetune
