#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "finetune/device/device.h"

namespace finetune {

/// What a plugin (`libfinetune_<type>.so`) hands to the program. Loading it registers its kernels with
/// LibTorch's dispatcher.
struct DevicePlugin {
  const DeviceServices* services;
  int num_devices;
};

/// The one symbol a plugin exports, with C linkage, as `finetune_device_plugin`. Called once, after loading.
/// On failure it returns null and points `*why_not` to a text that lives as long as the plugin.
using DevicePluginEntry = const DevicePlugin* (*)(const char** why_not);

/// Where the plugin of a device type ("cuda") lies: in FINETUNE_PLUGIN_PATH, the folder of the binary, or
/// `../lib` beside it.
std::optional<std::filesystem::path> find_device_plugin(const std::string& type);

/// Loads the plugin of a device type ("cuda") once. For "cuda" the driver is probed first, since LibTorch
/// decides at its first CUDA query what it will be able to do. Returns null, with the reason, where there is
/// no usable device of that type.
const DevicePlugin* load_device_plugin(const std::string& type, std::string* why_not);

}  // namespace finetune
