#pragma once

#include <cstdint>
#include <vector>

#include "finetune/tokenizer/tokenizer.h"
#include "post_processor.h"

namespace finetune {

/// The tokens of one text that were read.
struct TextTokens {
  std::vector<int32_t> ids;
  std::vector<ByteSpan> offsets;
  std::vector<int32_t> word_ids;
  int32_t num_words = 0;
  bool complete = true;  ///< a limit left nothing unread

  int64_t size() const { return static_cast<int64_t>(ids.size()); }

  /// Adds a token of the word that is being read.
  void add(int32_t id, ByteSpan span) {
    ids.push_back(id);
    offsets.push_back(span);
    word_ids.push_back(num_words);
  }
};

/// Cuts the texts as `options` say and puts the template's special tokens around them. `second` may be null.
/// Throws `DataError` where the truncation strategy cannot reach `max_length`.
Encoding assemble_row(const TextTokens& first, const TextTokens* second, const RowTemplate& rows,
                      const EncodeOptions& options, bool truncate_left);

/// As above for tokens of one text that were read in full.
Encoding frame_tokens(const Encoding& tokens, const RowTemplate& rows, const EncodeOptions& options,
                      bool truncate_left);

/// The tokens alone, without special tokens.
Encoding plain_encoding(TextTokens tokens);

/// Throws `ConfigError` where `max_length` has no room for the special tokens.
void check_room(const RowTemplate& rows, bool pair, const EncodeOptions& options);

}  // namespace finetune
