#pragma once

#include <map>
#include <string>
#include <string_view>

namespace finetune {

/// A zip archive of stored members, as torch.save writes: name -> bytes, views into `bytes`. The directory
/// must agree with each member's own header; compressed members, duplicate names and overlaps are refused.
/// Throws `CheckpointError` naming `path` and the byte offset. The format: PKWARE's APPNOTE 6.3.10, 4.3.
std::map<std::string, std::string_view> read_zip(std::string_view bytes, const std::string& path);

}  // namespace finetune
