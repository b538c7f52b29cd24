#include "added_tokens.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "unicode_tables.h"
#include "utf8.h"

namespace finetune {
namespace {

bool ends_with_word_character(std::string_view text) {
  if (text.empty()) return false;
  return unicode::is_word_character(decode_utf8(text, previous_code_point(text, text.size())).code_point);
}

bool starts_with_word_character(std::string_view text) {
  return !text.empty() && unicode::is_word_character(decode_utf8(text, 0).code_point);
}

size_t before_white_space(std::string_view text, size_t end) {
  while (end > 0) {
    const size_t start = previous_code_point(text, end);
    if (!unicode::is_white_space(decode_utf8(text, start).code_point)) break;
    end = start;
  }
  return end;
}

size_t behind_white_space(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    const DecodedCodePoint decoded = decode_utf8(text, begin);
    if (!unicode::is_white_space(decoded.code_point)) break;
    begin += decoded.length;
  }
  return begin;
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens, const std::vector<std::string>& patterns)
    : tokens_(std::move(tokens)) {
  std::vector<std::pair<std::string_view, int32_t>> entries;
  std::unordered_set<std::string_view> seen;
  for (size_t i = 0; i < patterns.size(); ++i) {
    if (patterns[i].empty() || !seen.insert(patterns[i]).second) continue;
    entries.emplace_back(patterns[i], static_cast<int32_t>(i));
    starts_[static_cast<uint8_t>(patterns[i][0])] = true;
  }
  if (std::count(std::begin(starts_), std::end(starts_), true) == 1) {
    single_start_ =
        static_cast<int>(std::find(std::begin(starts_), std::end(starts_), true) - std::begin(starts_));
  }
  trie_ = PieceTrie(std::move(entries));
}

size_t AddedTokenMatcher::find_start(std::string_view text, size_t position) const {
  if (tokens_.empty() || position >= text.size()) return text.size();
  if (single_start_ >= 0) {
    const void* found = std::memchr(text.data() + position, single_start_, text.size() - position);
    return found == nullptr ? text.size()
                            : static_cast<size_t>(static_cast<const char*>(found) - text.data());
  }
  while (position < text.size() && !starts_[static_cast<uint8_t>(text[position])]) ++position;
  return position;
}

bool AddedTokenMatcher::next(Cursor& cursor, TextSegment& segment) const {
  if (cursor.has_pending) {
    cursor.has_pending = false;
    segment = cursor.pending;
    return true;
  }
  const std::string_view text = cursor.text;
  for (size_t start = find_start(text, cursor.search); start < text.size();) {
    const PieceTrie::Match match = trie_.longest_prefix(text.substr(start));
    if (match.value < 0) {
      start = find_start(text, start + 1);
      continue;
    }
    // Also a match that is refused below is over: no shorter one is looked for inside it.
    const size_t stop = start + match.length;
    cursor.search = stop;
    const AddedToken& found = token(match.value);
    if (found.single_word &&
        (ends_with_word_character(text.substr(0, start)) || starts_with_word_character(text.substr(stop)))) {
      start = find_start(text, stop);
      continue;
    }
    const size_t begin = found.lstrip ? std::max(before_white_space(text, start), cursor.consumed) : start;
    const size_t end = found.rstrip ? behind_white_space(text, stop) : stop;
    const TextSegment token_segment = {begin, end, match.value};
    segment = {cursor.consumed, begin, -1};
    const bool text_before = cursor.consumed < begin;
    cursor.consumed = end;
    if (text_before) {
      cursor.pending = token_segment;
      cursor.has_pending = true;
    } else {
      segment = token_segment;
    }
    return true;
  }
  cursor.search = text.size();
  if (cursor.consumed >= text.size()) return false;
  segment = {cursor.consumed, text.size(), -1};
  cursor.consumed = text.size();
  return true;
}

}  // namespace finetune
