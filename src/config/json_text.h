#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "finetune/core/json.h"

namespace finetune::config {

/// A key that an object holds twice.
struct DuplicateKey {
  std::string pointer;
  int line = 0;  ///< from 1
  int first_line = 0;
};

/// What a JSON text holds, or why it is none.
struct JsonText {
  Json value;
  std::vector<DuplicateKey> duplicates;  ///< the last value counts
  std::string error;  ///< "3:14: ..." (line and column from 1); empty where the text is JSON
};

/// Parses JSON with `//` and `/* */` comments.
JsonText parse_json_text(std::string_view text);

/// `pointer` with one more reference token, escaped as RFC 6901 asks; control characters are escaped as in
/// JSON.
std::string extend_pointer(const std::string& pointer, std::string_view token);

}  // namespace finetune::config
