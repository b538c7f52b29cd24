#include <algorithm>
#include <limits>
#include <string_view>
#include <vector>

#include "row_assembly.h"
#include "truncation.h"
#include "wordpiece_tokenizer.h"

namespace finetune {

struct WordPieceTokenizer::ReadText : TextTokens {};

WordPieceTokenizer::ReadText WordPieceTokenizer::read(std::string_view text, int64_t limit) const {
  ReadText result;
  std::vector<Piece> pieces;
  const auto on_word = [&](const NormalizedText& normalized, const SplitWord& word) {
    if (result.size() >= limit) return false;
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
    if (result.size() >= limit) return false;
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
  check_room(spec_.rows, pair.has_value(), options);
  const int64_t limit =
      spec_.truncate_left ? std::numeric_limits<int64_t>::max() : read_limit(options, pair.has_value());
  const ReadText first = read(text, limit);
  const ReadText second = pair ? read(*pair, limit) : ReadText{};
  return assemble_row(first, pair ? &second : nullptr, spec_.rows, options, spec_.truncate_left);
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

Encoding WordPieceTokenizer::frame(const Encoding& tokens, const EncodeOptions& options) const {
  return frame_tokens(tokens, spec_.rows, options, spec_.truncate_left);
}

Encoding WordPieceTokenizer::encode_plain(std::string_view text) const {
  return plain_encoding(read(text, std::numeric_limits<int64_t>::max()));
}

}  // namespace finetune
