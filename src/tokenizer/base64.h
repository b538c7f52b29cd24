#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace finetune {

/// RFC 4648, with padding.
std::string encode_base64(std::string_view bytes);

/// Empty where `text` is not base64.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace finetune
