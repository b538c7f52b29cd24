#include <algorithm>
#include <limits>
#include <string_view>
#include <vector>

#include "truncation.h"
#include "wordpiece_tokenizer.h"

namespace finetune {

/// The tokens of one text that were read.
struct WordPieceTokenizer::ReadText {
  std::vector<int32_t> ids;
  std::vector<ByteSpan> offsets;
  std::vector<int32_t> word_ids;
  int32_t num_words = 0;
  bool complete = true;  ///< the limit left nothing unread

  int64_t num_tokens() const { return static_cast<int64_t>(ids.size()); }

  void add(int32_t id, ByteSpan span) {
    ids.push_back(id);
    offsets.push_back(span);
    word_ids.push_back(num_words);
  }
};

namespace {

void append_special(const std::vector<TemplateToken>& tokens, Encoding& encoding) {
  for (const TemplateToken& token : tokens) {
    encoding.input_ids.push_back(token.id);
    encoding.token_type_ids.push_back(token.type_id);
    encoding.offsets.push_back({});
    encoding.word_ids.push_back(-1);
    encoding.sequence_ids.push_back(-1);
  }
}

}  // namespace

WordPieceTokenizer::ReadText WordPieceTokenizer::read(std::string_view text, int64_t limit) const {
  ReadText result;
  std::vector<Piece> pieces;
  const auto on_word = [&](const NormalizedText& normalized, const SplitWord& word) {
    if (result.num_tokens() >= limit) return false;
    const std::string_view bytes =
        std::string_view(normalized.text).substr(word.begin, word.end - word.begin);
    model_.split(bytes, word.num_characters, pieces);
    for (const Piece& piece : pieces) {
      result.add(piece.id, normalized.original(word.begin + piece.begin, word.begin + piece.end));
    }
    ++result.num_words;
    return true;
  };
  const auto on_token = [&](const AddedToken& token, const ByteSpan& span) {
    if (result.num_tokens() >= limit) return false;
    result.add(token.id, span);
    ++result.num_words;
    return true;
  };
  AddedTokenMatcher::Cursor cursor{text};
  TextSegment segment;
  while (result.complete && raw_matcher_.next(cursor, segment)) {
    const auto begin = static_cast<int32_t>(segment.begin), end = static_cast<int32_t>(segment.end);
    if (segment.token_index >= 0) {
      result.complete = on_token(raw_matcher_.token(segment.token_index), {begin, end});
    } else {
      const std::string_view part = text.substr(segment.begin, segment.end - segment.begin);
      result.complete = for_each_word(part, begin, on_word, on_token);
    }
  }
  return result;
}

Encoding WordPieceTokenizer::encode(std::string_view text, std::optional<std::string_view> pair,
                                    const EncodeOptions& options) const {
  check_options(pair.has_value(), options);
  const int64_t limit =
      spec_.truncate_left ? std::numeric_limits<int64_t>::max() : read_limit(options, pair.has_value());
  const ReadText first = read(text, limit);
  const ReadText second = pair ? read(*pair, limit) : ReadText{};
  const KeptTokens kept =
      truncate_to(first.num_tokens(), pair ? std::optional(second.num_tokens()) : std::nullopt,
                  options.max_length - num_special_tokens(pair.has_value()), options.truncation);

  Encoding encoding;
  const auto append_kept = [&](const ReadText& read_text, int64_t count, int32_t type_id, int32_t sequence) {
    const int64_t begin = spec_.truncate_left ? read_text.num_tokens() - count : 0;
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(begin + count); ++i) {
      encoding.input_ids.push_back(read_text.ids[i]);
      encoding.token_type_ids.push_back(type_id);
      encoding.offsets.push_back(read_text.offsets[i]);
      encoding.word_ids.push_back(read_text.word_ids[i]);
      encoding.sequence_ids.push_back(sequence);
    }
  };
  const RowTemplate& rows = spec_.rows;
  append_special(pair ? rows.pair.before : rows.single.before, encoding);
  append_kept(first, kept.first, pair ? rows.pair.first_type_id : rows.single.type_id, 0);
  if (pair) {
    append_special(rows.pair.between, encoding);
    append_kept(second, kept.second, rows.pair.second_type_id, 1);
  }
  append_special(pair ? rows.pair.after : rows.single.after, encoding);
  encoding.truncated = !first.complete || !second.complete || kept.first < first.num_tokens() ||
                       kept.second < second.num_tokens();
  return encoding;
}

/// The way of rows whose beginning is cut: rare, so it goes through `encode`.
RowShape WordPieceTokenizer::append_left(std::string_view text, std::optional<std::string_view> pair,
                                         const EncodeOptions& options, std::vector<int32_t>& ids) const {
  const Encoding encoding = encode(text, pair, options);
  ids.insert(ids.end(), encoding.input_ids.begin(), encoding.input_ids.end());
  const auto& types = encoding.token_type_ids;
  RowShape shape;
  shape.num_tokens = static_cast<int64_t>(types.size());
  shape.second_segment = std::find(types.begin(), types.end(), 1) - types.begin();
  shape.truncated = encoding.truncated;
  return shape;
}

Encoding WordPieceTokenizer::encode_plain(std::string_view text) const {
  ReadText read_text = read(text, std::numeric_limits<int64_t>::max());
  Encoding encoding;
  encoding.input_ids = std::move(read_text.ids);
  encoding.offsets = std::move(read_text.offsets);
  encoding.word_ids = std::move(read_text.word_ids);
  encoding.token_type_ids.assign(encoding.input_ids.size(), 0);
  encoding.sequence_ids.assign(encoding.input_ids.size(), 0);
  return encoding;
}

}  // namespace finetune
