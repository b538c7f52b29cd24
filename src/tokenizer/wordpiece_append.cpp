// Rows straight into a caller's arena: what training uses.

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>

#include "ascii_words.h"
#include "finetune/core/error.h"
#include "row_assembly.h"
#include "truncation.h"
#include "utf8.h"
#include "word_cache.h"
#include "wordpiece_tokenizer.h"

namespace finetune {
namespace {

/// Bytes that may be read behind the place where a word begins.
constexpr size_t kReadAhead = 16;

void append_special(const std::vector<TemplateToken>& tokens, std::vector<int32_t>& ids) {
  for (const TemplateToken& token : tokens) ids.push_back(token.id);
}

}  // namespace

/// A text being turned into ids.
struct WordPieceTokenizer::Row {
  std::vector<int32_t>& ids;
  size_t begin;      ///< of the text's ids
  int64_t limit;     ///< nothing is read once so many ids are there
  WordCache* cache;  ///< or null
  std::string word;  ///< bytes of the word being read; of a word that is too long, the first

  int64_t num_ids() const { return static_cast<int64_t>(ids.size() - begin); }
  bool full() const { return num_ids() >= limit; }
};

/// Keeps a cache of words from row to row.
class WordPieceTokenizer::CachingEncoder : public RowEncoder {
 public:
  explicit CachingEncoder(const WordPieceTokenizer& tokenizer) : tokenizer_(tokenizer) {}

  RowShape append(std::string_view text, std::optional<std::string_view> pair, const EncodeOptions& options,
                  std::vector<int32_t>& ids) override {
    return tokenizer_.append_row(text, pair, options, &cache_, ids);
  }

 private:
  const WordPieceTokenizer& tokenizer_;
  WordCache cache_;
};

std::unique_ptr<RowEncoder> WordPieceTokenizer::row_encoder() const {
  return std::make_unique<CachingEncoder>(*this);
}

RowShape WordPieceTokenizer::append(std::string_view text, std::optional<std::string_view> pair,
                                    const EncodeOptions& options, std::vector<int32_t>& ids) const {
  return append_row(text, pair, options, nullptr, ids);
}

RowShape WordPieceTokenizer::append_row(std::string_view text, std::optional<std::string_view> pair,
                                        const EncodeOptions& options, WordCache* cache,
                                        std::vector<int32_t>& ids) const {
  check_room(spec_.rows, pair.has_value(), options);
  if (spec_.truncate_left && options.truncation != TruncationStrategy::kNone) {
    return append_left(text, pair, options, ids);
  }
  const RowTemplate& rows = spec_.rows;
  const size_t row_begin = ids.size();
  append_special(pair ? rows.pair.before : rows.single.before, ids);
  const int64_t limit = read_limit(options, pair.has_value());
  Row first{ids, ids.size(), limit, cache, {}};
  bool complete = append_text(text, first);
  const int64_t num_first = first.num_ids();
  const size_t first_end = ids.size();
  if (pair) append_special(rows.pair.between, ids);
  const size_t second_begin = ids.size();
  int64_t num_second = 0;
  if (pair) {
    Row second{ids, second_begin, limit, cache, std::move(first.word)};
    complete &= append_text(*pair, second);
    num_second = second.num_ids();
  }

  KeptTokens kept;
  try {
    kept = truncate_to(num_first, pair ? std::optional(num_second) : std::nullopt,
                       options.max_length - num_special_tokens(pair.has_value()), options.truncation);
  } catch (const DataError&) {
    ids.resize(row_begin);  // the caller's arena holds whole rows
    throw;
  }
  const auto cut_first = static_cast<std::ptrdiff_t>(num_first - kept.first);
  ids.resize(ids.size() - static_cast<size_t>(num_second - kept.second));
  const auto end = ids.begin() + static_cast<std::ptrdiff_t>(first_end);
  ids.erase(end - cut_first, end);
  append_special(pair ? rows.pair.after : rows.single.after, ids);

  RowShape shape;
  shape.num_tokens = static_cast<int64_t>(ids.size() - row_begin);
  shape.truncated = !complete || kept.first < num_first || kept.second < num_second;
  shape.second_segment = shape.num_tokens;
  if (pair && rows.pair.second_type_id == 1) {
    // Types are zeros, then ones: the first one is in `between`, or begins the second text.
    const auto& between = rows.pair.between;
    const auto ones =
        std::count_if(between.begin(), between.end(), [](const auto& t) { return t.type_id == 1; });
    shape.second_segment = static_cast<int64_t>(second_begin - row_begin) - (num_first - kept.first) - ones;
  }
  return shape;
}

bool WordPieceTokenizer::append_text(std::string_view text, Row& row) const {
  AddedTokenMatcher::Cursor cursor{text};
  TextSegment segment;
  while (raw_matcher_.next(cursor, segment)) {
    if (segment.token_index < 0) {
      if (!append_segment(text.substr(segment.begin, segment.end - segment.begin), row)) return false;
    } else {
      if (row.full()) return false;
      row.ids.push_back(raw_matcher_.token(segment.token_index).id);
    }
  }
  return true;
}

/// The word that is being read, and where its ids go.
class WordPieceTokenizer::WordReader {
 public:
  WordReader(const WordPieceModel& model, Row& row) : model_(model), row_(row) { row_.word.clear(); }

  void extend(std::string_view bytes, int64_t num_characters) {
    if (num_characters_ <= model_.max_characters()) row_.word.append(bytes);
    num_characters_ += num_characters;
  }

  bool between_words() const { return num_characters_ == 0; }

  /// Ends the word, if one was begun. Like `isolate`, false where the row is full.
  bool end() {
    if (num_characters_ == 0) return true;
    if (row_.full()) return false;
    model_.append(row_.word, num_characters_, row_.ids);
    row_.word.clear();
    num_characters_ = 0;
    return true;
  }

  /// Ends the word, and adds one of a single character.
  bool isolate(std::string_view character) {
    if (!end() || row_.full()) return false;
    model_.append(character, 1, row_.ids);
    return true;
  }

  /// The same for a character whose id is known.
  bool isolate(int32_t id) {
    if (!end() || row_.full()) return false;
    row_.ids.push_back(id);
    return true;
  }

 private:
  const WordPieceModel& model_;
  Row& row_;
  int64_t num_characters_ = 0;
};

inline bool WordPieceTokenizer::append_ascii(uint8_t byte, WordReader& word) const {
  const CharacterMap::Ascii ascii = characters_.ascii(byte);
  switch (ascii.action) {
    case CharacterAction::kKeep:
    case CharacterAction::kReplace:
      word.extend({&ascii.replacement, 1}, 1);
      return true;
    case CharacterAction::kBreak:
      return word.end();
    case CharacterAction::kIsolate:
      return word.isolate(ascii_ids_[byte]);
    default:
      return true;
  }
}

/// For every action but kInContext.
bool WordPieceTokenizer::append_character(uint32_t code_point, std::string_view bytes, CharacterAction action,
                                          WordReader& word) const {
  switch (action) {
    case CharacterAction::kKeep:
      word.extend(bytes, 1);
      return true;
    case CharacterAction::kReplace: {
      const CharacterMap::Replacement replacement = characters_.replacement(code_point);
      word.extend(replacement.bytes, replacement.num_characters);
      return true;
    }
    case CharacterAction::kHangul: {
      char jamo[9];
      const size_t size = encode_jamo(code_point, jamo);
      word.extend({jamo, size}, static_cast<int64_t>(size / 3));
      return true;
    }
    case CharacterAction::kBreak:
      return word.end();
    case CharacterAction::kIsolate:
      return word.isolate(bytes);
    case CharacterAction::kReplaceAndIsolate:
      return word.isolate(characters_.replacement(code_point).bytes);
    default:
      return true;
  }
}

/// Normalises, splits and looks up in one pass, without intermediate text. False once the limit left
/// something unread.
bool WordPieceTokenizer::append_segment(std::string_view segment, Row& row) const {
  if (!normalized_matcher_.empty()) return append_segment_in_full(segment, row);
  const size_t begin = row.ids.size();
  const size_t direct = segment.size() > kReadAhead ? segment.size() - kReadAhead : 0;
  size_t position = 0;
  while (position < segment.size()) {
    if (position < direct)
      position = append_ascii_words(segment.data(), position, direct, segment.size(), row);
    if (position >= direct) {
      // What is left is copied to where the bytes behind it may be read, too.
      char tail[2 * kReadAhead] = {};
      const size_t size = segment.size() - position;
      std::memcpy(tail, segment.data() + position, size);
      position += append_ascii_words(tail, 0, size, size, row);
    }
    if (position == segment.size()) return true;
    switch (append_with_care(segment, position, row)) {
      case Progress::kGoesOn:
        break;
      case Progress::kFull:
        return false;
      case Progress::kInContext:
        row.ids.resize(begin);
        return append_segment_in_full(segment, row);
    }
  }
  return true;
}

/// Words of ASCII letters and digits, and single ASCII characters between them, as long as they begin before
/// `stop`: nearly all of most texts. Returns where it stopped, between two words: at `stop`, or where
/// something else comes, or where the row is full. [0, end) is the text, and kReadAhead bytes behind `stop`
/// may be read.
size_t WordPieceTokenizer::append_ascii_words(const char* text, size_t position, size_t stop, size_t end,
                                              Row& row) const {
  while (position < stop) {
    const AlphanumericRun run = alphanumeric_run(text + position, spec_.normalizer.lowercase);
    if (run.length == 0) {
      const auto byte = static_cast<uint8_t>(text[position]);
      if (byte >= 0x80) return position;
      const CharacterAction action = characters_.ascii(byte).action;
      if (action == CharacterAction::kIsolate) {
        if (row.full()) return position;
        row.ids.push_back(ascii_ids_[byte]);
      } else if (action != CharacterAction::kBreak && action != CharacterAction::kDrop) {
        return position;
      }
      ++position;
      continue;
    }
    const size_t next = position + run.length;
    if (run.length == kReadAhead || (next < end && !ends_word(text[next])) || row.full()) return position;
    append_short_word(run, row);
    position = next + (next < end && text[next] == ' ' ? 1 : 0);
  }
  return position;
}

inline bool WordPieceTokenizer::ends_word(char character) const {
  const auto byte = static_cast<uint8_t>(character);
  if (byte >= 0x80) return false;
  const CharacterAction action = characters_.ascii(byte).action;
  return action == CharacterAction::kBreak || action == CharacterAction::kIsolate;
}

inline void WordPieceTokenizer::append_short_word(const AlphanumericRun& run, Row& row) const {
  WordCache::Entry unused;
  WordCache::Entry& entry = row.cache != nullptr ? row.cache->slot(run.word) : unused;
  if (entry.num_ids > 0 && entry.word == run.word) {
    for (uint32_t i = 0; i < entry.num_ids; ++i) row.ids.push_back(entry.ids[i]);
    return;
  }
  char bytes[sizeof(ShortWord)];
  std::memcpy(bytes, &run.word, sizeof(bytes));
  const size_t mark = row.ids.size();
  model_.append({bytes, run.length}, static_cast<int64_t>(run.length), row.ids);
  WordCache::fill(entry, run.word, std::span(row.ids).subspan(mark));
}

/// Reads on from between two words, character by character, until it is between two words again and an ASCII
/// character comes.
WordPieceTokenizer::Progress WordPieceTokenizer::append_with_care(std::string_view segment, size_t& position,
                                                                  Row& row) const {
  WordReader word(model_, row);
  while (position < segment.size()) {
    const auto byte = static_cast<uint8_t>(segment[position]);
    if (byte < 0x80) {
      ++position;
      if (!append_ascii(byte, word)) return Progress::kFull;
      if (word.between_words()) return Progress::kGoesOn;
      continue;
    }
    const DecodedCodePoint decoded = decode_utf8(segment, position);
    const CharacterAction action = characters_.action(decoded.code_point);
    if (action == CharacterAction::kInContext) return Progress::kInContext;
    const std::string_view bytes = segment.substr(position, decoded.length);
    if (!append_character(decoded.code_point, bytes, action, word)) return Progress::kFull;
    position += decoded.length;
  }
  return word.end() ? Progress::kGoesOn : Progress::kFull;
}

/// The same as `append_segment`, step by step.
bool WordPieceTokenizer::append_segment_in_full(std::string_view segment, Row& row) const {
  return for_each_word(
      segment, 0,
      [&](const NormalizedText& normalized, const SplitWord& word) {
        if (row.full()) return false;
        model_.append(std::string_view(normalized.text).substr(word.begin, word.end - word.begin),
                      word.num_characters, row.ids);
        return true;
      },
      [&](const AddedToken& token, const ByteSpan&) {
        if (row.full()) return false;
        row.ids.push_back(token.id);
        return true;
      });
}

}  // namespace finetune
