#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "finetune/core/json.h"

namespace finetune::cli {

/// Whether `inspect` is to look at weights: a .safetensors, .pth, .pt or .bin file, or a folder of a model, a
/// checkpoint or a run.
bool is_checkpoint_path(const std::filesystem::path& path);

/// What is in it. Throws `CheckpointError`.
Json describe_checkpoint(const std::filesystem::path& path);
std::string checkpoint_text(const Json& description);

}  // namespace finetune::cli
