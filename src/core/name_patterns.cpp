#include "finetune/core/name_patterns.h"

#include <regex>

#include "finetune/core/error.h"
#include "finetune/core/text.h"

namespace finetune {

std::vector<size_t> matches_of(const std::vector<std::string>& patterns,
                               const std::vector<std::string>& names, const std::string& key) {
  std::vector<bool> matched(names.size());
  for (const std::string& pattern : patterns) {
    const std::regex expression(pattern);
    bool found = false;
    for (size_t i = 0; i < names.size(); ++i) {
      if (!std::regex_search(names[i], expression)) continue;
      matched[i] = found = true;
    }
    if (!found) {
      throw ConfigError(key + ": \"" + pattern + "\" is found in no parameter's name; names are " +
                        join_some(names));
    }
  }
  std::vector<size_t> indices;
  for (size_t i = 0; i < names.size(); ++i) {
    if (matched[i]) indices.push_back(i);
  }
  return indices;
}

}  // namespace finetune
