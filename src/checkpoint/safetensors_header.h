#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "finetune/checkpoint/safetensors.h"

namespace finetune {

/// The longest header that the format allows, in bytes.
inline constexpr size_t kMaxSafetensorsHeader = 100'000'000;

struct SafetensorsHeader {
  size_t data_begin = 0;                        ///< offset in the file
  std::vector<SafetensorsFile::Entry> entries;  ///< sorted by `begin`
  std::map<std::string, std::string> metadata;
};

/// Reads the header of a file whose bytes are `file`, and checks it against the format's rules and the file's
/// size. Nothing is allocated from a number in the file. Throws `CheckpointError` with `path`, byte offset,
/// what was found and what was expected.
SafetensorsHeader parse_safetensors_header(const std::filesystem::path& path, std::string_view file);

}  // namespace finetune
