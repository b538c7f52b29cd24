#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace finetune {

/// The indices of the `names` in which one of the regular expressions (ECMAScript) is found, ascending.
/// Throws `ConfigError`, naming `key` and names to choose from, for a pattern that is found in none: it would
/// change nothing, which is not what was meant.
std::vector<size_t> matches_of(const std::vector<std::string>& patterns,
                               const std::vector<std::string>& names, const std::string& key);

}  // namespace finetune
