#include <algorithm>
#include <cctype>
#include <map>

#include "finetune/core/text.h"
#include "finetune/data/inspection.h"
#include "finetune/data/message.h"

namespace finetune {
namespace {

constexpr size_t kMostCompared = 1'000;  // classes whose names are compared with each other

/// A name without case, blanks, and marks between words; empty where it has no letter.
std::string plain_form(std::string_view name) {
  constexpr std::string_view kMarks = " \t\r\n_-.'\"";
  std::string result;
  bool has_letter = false;
  for (const char byte : name) {
    if (kMarks.find(byte) != std::string_view::npos) continue;
    const auto code = static_cast<unsigned char>(byte);
    has_letter |= code >= 0x80 || std::isalpha(code);
    result += static_cast<char>(code < 0x80 ? std::tolower(code) : code);
  }
  return has_letter ? result : "";
}

bool has_digit(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
}

/// Whether one insertion, deletion or exchange of a byte, or of two neighbours, makes one of the other.
bool one_edit_apart(std::string_view a, std::string_view b) {
  if (a.size() > b.size()) std::swap(a, b);
  if (b.size() - a.size() > 1) return false;
  size_t same = 0;
  while (same < a.size() && a[same] == b[same]) ++same;
  if (a.size() < b.size()) return a.substr(same) == b.substr(same + 1);
  if (same == a.size()) return false;
  if (a.substr(same + 1) == b.substr(same + 1)) return true;
  return same + 1 < a.size() && a[same] == b[same + 1] && a[same + 1] == b[same] &&
         a.substr(same + 2) == b.substr(same + 2);
}

std::string with_count(const std::pair<std::string, int64_t>& label) {
  return shown(label.first) + " (" + with_thousands(label.second) + ")";
}

}  // namespace

std::vector<std::string> suspicious_labels(const std::vector<std::pair<std::string, int64_t>>& counts,
                                           const std::string& column, bool are_tags) {
  std::vector<std::string> warnings;
  std::map<std::string, std::vector<std::string>> spellings;
  std::vector<std::string> single;
  for (const auto& label : counts) {
    if (!are_tags) {
      const std::string form = plain_form(label.first);
      if (!form.empty()) spellings[form].push_back(with_count(label));
    }
    if (label.second == 1) single.push_back(shown(label.first));
    if (!column.empty() && label.first == column) {
      warnings.push_back("a label is " + shown(column) +
                         ", the name of its column; was a header pasted between the rows?");
    }
  }
  for (const auto& [form, names] : spellings) {
    if (names.size() > 1) {
      warnings.push_back("labels that differ in case, blanks or marks alone: " + join_some(names) +
                         "; write them alike");
    }
  }
  for (size_t i = 0; !are_tags && i < std::min(counts.size(), kMostCompared); ++i) {
    for (size_t j = i + 1; j < std::min(counts.size(), kMostCompared); ++j) {
      const bool rare = counts[j].second * 20 <= counts[i].second;
      const bool long_enough = counts[i].first.size() >= 5 && !has_digit(counts[i].first);
      if (!rare || !long_enough || plain_form(counts[i].first) == plain_form(counts[j].first)) continue;
      if (!one_edit_apart(counts[i].first, counts[j].first)) continue;
      warnings.push_back("label " + with_count(counts[j]) + " may be a slip for " + with_count(counts[i]));
    }
  }
  if (!single.empty()) {
    warnings.push_back(std::to_string(single.size()) + (single.size() == 1 ? " class" : " classes") +
                       " of one row: " + join_some(single) +
                       "; nothing can be learned from one, or measured on it");
  }
  if (counts.size() > 1 && counts.back().second > 0 && counts.front().second >= 10 * counts.back().second) {
    warnings.push_back("the largest class " + with_count(counts.front()) + " has " +
                       with_thousands(counts.front().second / counts.back().second) +
                       " times the rows of the smallest, " + with_count(counts.back()) +
                       "; accuracy says little then: checkpoint.metric \"macro_f1\", perhaps "
                       "task.class_weights \"balanced\"");
  }
  return warnings;
}

}  // namespace finetune
