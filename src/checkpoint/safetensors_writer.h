#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "finetune/checkpoint/safetensors.h"

namespace finetune {

/// What a safetensors file of these tensors will hold. The tensors must outlive it.
struct SafetensorsPlan {
  std::string header;                     ///< length, JSON and padding
  std::vector<const NamedTensor*> order;  ///< as their bytes follow each other
  size_t size = 0;                        ///< of the whole file, in bytes
};

/// Throws `CheckpointError` for what cannot be written: a name twice or not UTF-8, a dtype or layout that the
/// format lacks.
SafetensorsPlan plan_safetensors(const NamedTensors& tensors,
                                 const std::map<std::string, std::string>& metadata);

/// Writes and fsyncs. Throws `std::system_error`.
FileDigest write_planned(const std::filesystem::path& path, const SafetensorsPlan& plan);

/// Writes and fsyncs. Throws `std::system_error`.
FileDigest write_text(const std::filesystem::path& path, const std::string& text);

}  // namespace finetune
