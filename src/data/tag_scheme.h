#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace finetune {

/// Rewrites a sentence's tags from IOB1, where an entity begins with `I-` unless its neighbour has the same
/// type, to IOB2, where it always begins with `B-`. Tags in IOB2 stay, and so does a sentence with tags of
/// another scheme. Returns how many tags were rewritten.
int64_t rewrite_iob1(std::vector<std::string>& tags);

/// Logs that `count` tags of a file were rewritten, if any were.
void say_rewritten_iob1(const std::filesystem::path& file, int64_t count);

}  // namespace finetune
