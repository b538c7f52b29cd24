#pragma once

#include <filesystem>
#include <optional>

namespace finetune {

/// Converts between a run's checkpoint, a .pth, `pytorch_model.bin`, safetensors and Hugging Face
/// directories; the name of `target` says which: .pth and .pt (a run's checkpoint with optimizer and epoch,
/// all else as a state dict), .bin, .safetensors, else a directory. A checkpoint that went on from a .pth
/// gets that script's names and param groups back. `model`: the Hugging Face directory whose config.json and
/// tokenizer go into a target directory, where `source` has none. Throws `CheckpointError`, and `ConfigError`
/// where `target` is there and `overwrite` is not set.
void convert(const std::filesystem::path& source, const std::filesystem::path& target,
             const std::optional<std::filesystem::path>& model, bool overwrite);

}  // namespace finetune
