#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "finetune/checkpoint/safetensors.h"

namespace finetune {

inline constexpr char kManifestFile[] = "MANIFEST.json";
inline constexpr char kModelFile[] = "model.safetensors";
inline constexpr char kOptimizerFile[] = "optimizer.safetensors";
inline constexpr char kStateFile[] = "state.json";

/// What makes a folder a checkpoint: written last, it says what every other file must be.
struct Manifest {
  int64_t step = 0;
  bool is_best = false;  ///< when it was saved; lets the link `best` be mended after a crash
  std::map<std::string, FileDigest> files;
};

std::string manifest_text(const Manifest& manifest);

/// Reads DIRECTORY/MANIFEST.json; any change of a byte in it is found. Throws `CheckpointError`.
Manifest read_manifest(const std::filesystem::path& directory);

/// Reads the whole file once, with a small buffer. Throws `CheckpointError` where size or checksum differ.
void verify_file(const std::filesystem::path& path, const FileDigest& expected);

}  // namespace finetune
