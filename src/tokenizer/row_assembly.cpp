#include "row_assembly.h"

#include <optional>
#include <string>
#include <utility>

#include "finetune/core/error.h"
#include "truncation.h"

namespace finetune {
namespace {

int64_t num_special(const RowTemplate& rows, bool pair) {
  return pair ? rows.pair.num_special() : rows.single.num_special();
}

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

Encoding assemble_row(const TextTokens& first, const TextTokens* second, const RowTemplate& rows,
                      const EncodeOptions& options, bool truncate_left) {
  const bool pair = second != nullptr;
  const KeptTokens kept = truncate_to(first.size(), pair ? std::optional(second->size()) : std::nullopt,
                                      options.max_length - num_special(rows, pair), options.truncation);
  Encoding encoding;
  const auto append_kept = [&](const TextTokens& tokens, int64_t count, int32_t type_id, int32_t sequence) {
    const int64_t begin = truncate_left ? tokens.size() - count : 0;
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(begin + count); ++i) {
      encoding.input_ids.push_back(tokens.ids[i]);
      encoding.token_type_ids.push_back(type_id);
      encoding.offsets.push_back(tokens.offsets[i]);
      encoding.word_ids.push_back(tokens.word_ids[i]);
      encoding.sequence_ids.push_back(sequence);
    }
  };
  append_special(pair ? rows.pair.before : rows.single.before, encoding);
  append_kept(first, kept.first, pair ? rows.pair.first_type_id : rows.single.type_id, 0);
  if (pair) {
    append_special(rows.pair.between, encoding);
    append_kept(*second, kept.second, rows.pair.second_type_id, 1);
  }
  append_special(pair ? rows.pair.after : rows.single.after, encoding);
  encoding.truncated = !first.complete || kept.first < first.size() ||
                       (pair && (!second->complete || kept.second < second->size()));
  return encoding;
}

Encoding frame_tokens(const Encoding& tokens, const RowTemplate& rows, const EncodeOptions& options,
                      bool truncate_left) {
  check_room(rows, false, options);
  const TextTokens read{.ids = tokens.input_ids, .offsets = tokens.offsets, .word_ids = tokens.word_ids};
  return assemble_row(read, nullptr, rows, options, truncate_left);
}

Encoding plain_encoding(TextTokens tokens) {
  Encoding encoding;
  encoding.input_ids = std::move(tokens.ids);
  encoding.offsets = std::move(tokens.offsets);
  encoding.word_ids = std::move(tokens.word_ids);
  encoding.token_type_ids.assign(encoding.input_ids.size(), 0);
  encoding.sequence_ids.assign(encoding.input_ids.size(), 0);
  return encoding;
}

void check_room(const RowTemplate& rows, bool pair, const EncodeOptions& options) {
  if (options.truncation == TruncationStrategy::kNone || options.max_length >= num_special(rows, pair))
    return;
  throw ConfigError("max_length is " + std::to_string(options.max_length) + ", but the special tokens of a " +
                    (pair ? "pair of texts" : "single text") + " alone are " +
                    std::to_string(num_special(rows, pair)) + "; set data.max_length to more than that");
}

}  // namespace finetune
