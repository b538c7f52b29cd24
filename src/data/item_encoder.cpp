#include "item_encoder.h"

#include <algorithm>
#include <limits>

#include "finetune/core/error.h"
#include "finetune/data/message.h"

namespace finetune {
namespace {

constexpr int32_t kNowhere = -1;

RowShape append_encoding(const Encoding& encoding, std::vector<int32_t>& ids) {
  ids.insert(ids.end(), encoding.input_ids.begin(), encoding.input_ids.end());
  const auto& types = encoding.token_type_ids;
  return {.num_tokens = static_cast<int64_t>(types.size()),
          .second_segment = std::find(types.begin(), types.end(), 1) - types.begin(),
          .truncated = encoding.truncated};
}

RowShape append_words(const std::vector<std::string>& words, const Tokenizer& tokenizer,
                      const EncodeOptions& options, std::vector<int32_t>& ids,
                      std::vector<int32_t>& positions) {
  const Encoding encoding = tokenizer.encode_words(words, options);
  const size_t begin = positions.size();
  positions.resize(begin + words.size(), kNowhere);
  for (size_t token = 0; token < encoding.word_ids.size(); ++token) {
    if (encoding.word_ids[token] < 0) continue;
    int32_t& position = positions[begin + static_cast<size_t>(encoding.word_ids[token])];
    if (position == kNowhere) position = static_cast<int32_t>(token);
  }
  return append_encoding(encoding, ids);
}

/// `[CLS] text [SEP] [CLS] field [SEP]...`, all of token type 0: every part as the tokenizer encodes a text.
RowShape append_fields(const std::string& text, const std::vector<std::string>& fields,
                       const Tokenizer& tokenizer, const EncodeOptions& options, std::vector<int32_t>& ids,
                       std::vector<int32_t>& positions) {
  const bool limited = options.truncation != TruncationStrategy::kNone;
  const int64_t least_text = tokenizer.num_special_tokens(false);
  std::vector<Encoding> parts;
  int64_t num_tokens = 0;
  for (const std::string& field : fields) {
    Encoding part = tokenizer.encode(field, std::nullopt, without_limit());
    const auto size = static_cast<int64_t>(part.input_ids.size());
    if (limited && least_text + num_tokens + size > options.max_length) break;
    num_tokens += size;
    parts.push_back(std::move(part));
  }
  EncodeOptions rest = options;
  rest.max_length = std::max(options.max_length - num_tokens, least_text);
  RowShape shape = append_encoding(tokenizer.encode(text, std::nullopt, rest), ids);
  for (const Encoding& part : parts) {
    positions.push_back(static_cast<int32_t>(shape.num_tokens));
    shape.num_tokens += append_encoding(part, ids).num_tokens;
  }
  shape.second_segment = shape.num_tokens;
  shape.truncated |= parts.size() < fields.size();
  positions.insert(positions.end(), fields.size() - parts.size(), kNowhere);
  return shape;
}

/// Where each character of a UTF-8 text begins.
std::vector<int32_t> character_starts(std::string_view text) {
  std::vector<int32_t> starts;
  for (size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) starts.push_back(static_cast<int32_t>(i));
  }
  return starts;
}

[[noreturn]] void refuse_position(int64_t position, size_t size, const char* unit) {
  throw DataError("position " + std::to_string(position) + " is outside the row, which has " +
                  std::to_string(size) + " " + unit + " (numbered from 0); correct data.positions" +
                  (size > 0 ? " to at most " + std::to_string(size - 1) : ""));
}

/// The token of the first text that covers a byte.
int32_t token_at(const Encoding& encoding, int32_t byte) {
  for (size_t token = 0; token < encoding.offsets.size(); ++token) {
    const ByteSpan span = encoding.offsets[token];
    if (encoding.sequence_ids[token] == 0 && span.begin <= byte && byte < span.end)
      return static_cast<int32_t>(token);
  }
  return kNowhere;
}

RowShape append_places(const std::string& text, const std::vector<int64_t>& places, bool characters,
                       const Tokenizer& tokenizer, const EncodeOptions& options, std::vector<int32_t>& ids,
                       std::vector<int32_t>& positions) {
  const Encoding encoding = tokenizer.encode(text, std::nullopt, options);
  if (characters) {
    const std::vector<int32_t> starts = character_starts(text);
    for (const int64_t place : places) {
      if (place >= static_cast<int64_t>(starts.size())) refuse_position(place, starts.size(), "characters");
      positions.push_back(token_at(encoding, starts[static_cast<size_t>(place)]));
    }
  } else {
    const Encoding whole =
        encoding.truncated ? tokenizer.encode(text, std::nullopt, without_limit()) : Encoding{};
    const size_t size = std::max(encoding.input_ids.size(), whole.input_ids.size());
    for (const int64_t place : places) {
      if (place >= static_cast<int64_t>(size)) refuse_position(place, size, "tokens");
      const bool kept = place < static_cast<int64_t>(encoding.input_ids.size());
      positions.push_back(kept ? static_cast<int32_t>(place) : kNowhere);
    }
  }
  return append_encoding(encoding, ids);
}

}  // namespace

EncodeOptions without_limit() {
  return {.max_length = std::numeric_limits<int32_t>::max(), .truncation = TruncationStrategy::kNone};
}

RowShape append_items(const TextDataset& rows, size_t row, const Tokenizer& tokenizer,
                      const EncodeOptions& options, std::vector<int32_t>& ids,
                      std::vector<int32_t>& positions) {
  switch (rows.item_kind) {
    case ItemKind::kWords:
      return append_words(rows.items[row], tokenizer, options, ids, positions);
    case ItemKind::kFields:
      return append_fields(rows.texts[row], rows.items[row], tokenizer, options, ids, positions);
    default:
      return append_places(rows.texts[row], rows.positions[row],
                           rows.item_kind == ItemKind::kCharacterPositions, tokenizer, options, ids,
                           positions);
  }
}

}  // namespace finetune
