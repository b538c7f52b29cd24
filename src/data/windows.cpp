#include "windows.h"

#include <algorithm>

#include "finetune/core/error.h"
#include "item_encoder.h"

namespace finetune {
namespace {

/// Throws where neighbours would share all that a window has room for.
void check_room(int64_t room, const RowOptions& options, bool is_pair) {
  if (room > *options.stride) return;
  const std::string problem = "data.stride: found " + std::to_string(*options.stride) +
                              " shared tokens, expected fewer than " +
                              std::to_string(std::max<int64_t>(room, 0)) + ", which data.max_length " +
                              std::to_string(options.max_length) + " leaves beside ";
  if (!is_pair) throw ConfigError(problem + "the special tokens; set another of the two");
  throw DataError(problem +
                  "the other text and the special tokens; set another of the two, or shorten that text");
}

/// The tokens of `whole` but for those of one text outside [begin, end) of its tokens.
RowShape append_window(const Encoding& whole, int32_t sequence, int64_t begin, int64_t end,
                       std::vector<int32_t>& ids) {
  RowShape shape;
  int64_t number = 0;  // of the next token of that text
  shape.second_segment = -1;
  for (size_t token = 0; token < whole.input_ids.size(); ++token) {
    if (whole.sequence_ids[token] == sequence) {
      const int64_t here = number++;
      if (here < begin || here >= end) continue;
    }
    if (whole.token_type_ids[token] == 1 && shape.second_segment < 0) shape.second_segment = shape.num_tokens;
    ids.push_back(whole.input_ids[token]);
    ++shape.num_tokens;
  }
  if (shape.second_segment < 0) shape.second_segment = shape.num_tokens;
  return shape;
}

}  // namespace

void append_windows(std::string_view text, std::optional<std::string_view> pair, const Tokenizer& tokenizer,
                    const RowOptions& options, std::vector<int32_t>& ids, std::vector<RowShape>& shapes) {
  const Encoding whole = tokenizer.encode(text, pair, without_limit());
  const int32_t sequence = options.truncation == TruncationStrategy::kOnlySecond ? 1 : 0;
  const int64_t size = std::count(whole.sequence_ids.begin(), whole.sequence_ids.end(), sequence);
  const int64_t room = options.max_length - (static_cast<int64_t>(whole.input_ids.size()) - size);
  check_room(room, options, pair.has_value());
  for (int64_t begin = 0;; begin += room - *options.stride) {
    const int64_t end = std::min(begin + room, size);
    shapes.push_back(append_window(whole, sequence, begin, end, ids));
    if (end == size) return;
  }
}

}  // namespace finetune
