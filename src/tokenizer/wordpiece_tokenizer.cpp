#include "wordpiece_tokenizer.h"

#include <algorithm>

#include "finetune/core/error.h"
#include "finetune/core/hash.h"
#include "truncation.h"
#include "utf8.h"
#include "wordpiece_files.h"

namespace finetune {
namespace {

AddedTokenMatcher make_matcher(const WordPieceSpec& spec, bool normalized) {
  std::vector<AddedToken> tokens;
  std::vector<std::string> patterns;
  for (const AddedToken& token : spec.added_tokens) {
    if (token.normalized != normalized || (spec.split_special_tokens && token.special)) continue;
    tokens.push_back(token);
    patterns.push_back(normalized ? normalize_bert(token.content, 0, spec.normalizer).text : token.content);
  }
  return AddedTokenMatcher(std::move(tokens), patterns);
}

void append_special(const std::vector<TemplateToken>& tokens, std::vector<int32_t>& ids) {
  for (const TemplateToken& token : tokens) ids.push_back(token.id);
}

}  // namespace

std::optional<int32_t> WordPieceSpec::token_id(std::string_view token) const {
  for (const AddedToken& added : added_tokens) {
    if (added.content == token) return added.id;
  }
  return vocabulary.id(token);
}

std::string WordPieceSpec::named_token(std::string_view key) const {
  for (const auto& [name, token] : named_tokens) {
    if (name == key) return token;
  }
  return {};
}

/// A text being turned into ids.
struct WordPieceTokenizer::Row {
  std::vector<int32_t>& ids;
  size_t begin;      ///< of the text's ids
  int64_t limit;     ///< nothing is read once so many ids are there
  std::string word;  ///< bytes of the word being read; of a word that is too long, the first

  int64_t num_ids() const { return static_cast<int64_t>(ids.size() - begin); }
  bool full() const { return num_ids() >= limit; }
};

WordPieceTokenizer::WordPieceTokenizer(WordPieceSpec spec)
    : spec_(std::move(spec)),
      model_(spec_.vocabulary, spec_.model),
      characters_(spec_.normalizer),
      raw_matcher_(make_matcher(spec_, false)),
      normalized_matcher_(make_matcher(spec_, true)) {
  std::vector<int32_t> ids;
  for (size_t c = 0; c < ascii_ids_.size(); ++c) {
    const char character = static_cast<char>(c);
    ids.clear();
    model_.append({&character, 1}, 1, ids);
    ascii_ids_[c] = ids[0];
  }
  pad_id_ = spec_.token_id(spec_.named_token("pad_token")).value_or(0);
  Xxh3 hash;
  hash.update(wordpiece_tokenizer_json(spec_));
  hash.update(spec_.truncate_left ? "left" : "right");
  hash.update(spec_.split_special_tokens ? "split" : "whole");
  fingerprint_ = hash.hex();
}

void WordPieceTokenizer::check_options(bool pair, const EncodeOptions& options) const {
  if (options.truncation == TruncationStrategy::kNone || options.max_length >= num_special_tokens(pair))
    return;
  throw ConfigError("max_length is " + std::to_string(options.max_length) + ", but the special tokens of a " +
                    (pair ? "pair of texts" : "single text") + " alone are " +
                    std::to_string(num_special_tokens(pair)) + "; set data.max_length to more than that");
}

RowShape WordPieceTokenizer::append(std::string_view text, std::optional<std::string_view> pair,
                                    const EncodeOptions& options, std::vector<int32_t>& ids) const {
  check_options(pair.has_value(), options);
  if (spec_.truncate_left && options.truncation != TruncationStrategy::kNone) {
    return append_left(text, pair, options, ids);
  }
  const RowTemplate& rows = spec_.rows;
  const size_t row_begin = ids.size();
  append_special(pair ? rows.pair.before : rows.single.before, ids);
  const int64_t limit = read_limit(options, pair.has_value());
  Row first{ids, ids.size(), limit, {}};
  bool complete = append_text(text, first);
  const int64_t num_first = first.num_ids();
  const size_t first_end = ids.size();
  if (pair) append_special(rows.pair.between, ids);
  const size_t second_begin = ids.size();
  int64_t num_second = 0;
  if (pair) {
    Row second{ids, second_begin, limit, std::move(first.word)};
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
  WordReader word(model_, row);
  for (size_t position = 0; position < segment.size();) {
    const auto byte = static_cast<uint8_t>(segment[position]);
    if (byte < 0x80) {
      ++position;
      if (!append_ascii(byte, word)) return false;
      continue;
    }
    const DecodedCodePoint decoded = decode_utf8(segment, position);
    const CharacterAction action = characters_.action(decoded.code_point);
    if (action == CharacterAction::kInContext) {
      row.ids.resize(begin);
      return append_segment_in_full(segment, row);
    }
    const std::string_view bytes = segment.substr(position, decoded.length);
    if (!append_character(decoded.code_point, bytes, action, word)) return false;
    position += decoded.length;
  }
  return word.end();
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

int64_t WordPieceTokenizer::vocab_size() const {
  int32_t end = spec_.vocabulary.end_id();
  for (const AddedToken& token : spec_.added_tokens) end = std::max(end, token.id + 1);
  return end;
}

std::string WordPieceTokenizer::id_to_token(int32_t id) const {
  for (const AddedToken& token : spec_.added_tokens) {
    if (token.id == id) return token.content;
  }
  return spec_.vocabulary.token(id);
}

std::optional<int32_t> WordPieceTokenizer::token_to_id(std::string_view token) const {
  return spec_.token_id(token);
}

int64_t WordPieceTokenizer::num_special_tokens(bool pair) const {
  return pair ? spec_.rows.pair.num_special() : spec_.rows.single.num_special();
}

void WordPieceTokenizer::save(const std::filesystem::path& directory) const {
  save_wordpiece_files(spec_, directory);
}

}  // namespace finetune
