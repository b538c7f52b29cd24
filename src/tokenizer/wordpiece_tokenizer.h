#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bert_normalizer.h"
#include "bert_splitter.h"
#include "finetune/tokenizer/tokenizer.h"
#include "post_processor.h"
#include "token_tables.h"
#include "wordpiece_model.h"

namespace finetune {

struct AlphanumericRun;
class WordCache;

/// Everything that decides the ids of a WordPiece tokenizer, whichever files it came from.
struct WordPieceSpec : TokenTables {
  std::string class_name = "BertTokenizer";  ///< of the reference; ids do not depend on it
  WordPieceOptions model;
  BertNormalizerOptions normalizer;
  RowTemplate rows;
};

class WordPieceTokenizer : public Tokenizer {
 public:
  explicit WordPieceTokenizer(WordPieceSpec spec);

  RowShape append(std::string_view text, std::optional<std::string_view> pair, const EncodeOptions& options,
                  std::vector<int32_t>& ids) const override;
  std::unique_ptr<RowEncoder> row_encoder() const override;
  Encoding encode(std::string_view text, std::optional<std::string_view> pair,
                  const EncodeOptions& options) const override;
  Encoding encode_plain(std::string_view text) const override;
  Encoding frame(const Encoding& tokens, const EncodeOptions& options) const override;

  int64_t vocab_size() const override;
  std::string id_to_token(int32_t id) const override;
  std::optional<int32_t> token_to_id(std::string_view token) const override;
  int32_t pad_id() const override { return pad_id_; }
  int64_t num_special_tokens(bool pair) const override;
  std::string fingerprint() const override { return fingerprint_; }
  void save(const std::filesystem::path& directory) const override;

  const WordPieceSpec& spec() const { return spec_; }

 private:
  struct Row;
  class WordReader;
  class CachingEncoder;
  struct ReadText;
  enum class Progress {
    kGoesOn,
    kFull,      ///< the limit left something unread
    kInContext  ///< the segment must be normalised as a whole
  };

  RowShape append_row(std::string_view text, std::optional<std::string_view> pair,
                      const EncodeOptions& options, WordCache* cache, std::vector<int32_t>& ids) const;
  bool append_text(std::string_view text, Row& row) const;
  bool append_segment(std::string_view segment, Row& row) const;
  bool append_segment_in_full(std::string_view segment, Row& row) const;
  size_t append_ascii_words(const char* text, size_t position, size_t stop, size_t end, Row& row) const;
  bool ends_word(char character) const;
  void append_short_word(const AlphanumericRun& run, Row& row) const;
  Progress append_with_care(std::string_view segment, size_t& position, Row& row) const;
  bool append_ascii(uint8_t byte, WordReader& word) const;
  bool append_character(uint32_t code_point, std::string_view bytes, CharacterAction action,
                        WordReader& word) const;
  RowShape append_left(std::string_view text, std::optional<std::string_view> pair,
                       const EncodeOptions& options, std::vector<int32_t>& ids) const;
  ReadText read(std::string_view text, int64_t limit) const;
  /// Calls `on_word(const NormalizedText&, const SplitWord&)` and `on_token(const AddedToken&, ByteSpan)` in
  /// order until one returns false; says whether none did. `offset` is where `segment` begins in its text.
  template <typename OnWord, typename OnToken>
  bool for_each_word(std::string_view segment, int32_t offset, OnWord on_word, OnToken on_token) const;

  WordPieceSpec spec_;
  WordPieceModel model_;
  CharacterMap characters_;
  AddedTokenMatcher raw_matcher_;         ///< tokens looked for in the text as it is
  AddedTokenMatcher normalized_matcher_;  ///< tokens looked for in normalised text
  std::array<int32_t, 128> ascii_ids_{};  ///< of one-character words
  int32_t pad_id_ = 0;
  std::string fingerprint_;
};

template <typename OnWord, typename OnToken>
bool WordPieceTokenizer::for_each_word(std::string_view segment, int32_t offset, OnWord on_word,
                                       OnToken on_token) const {
  const NormalizedText normalized = normalize_bert(segment, offset, spec_.normalizer);
  AddedTokenMatcher::Cursor cursor{normalized.text};
  TextSegment part;
  while (normalized_matcher_.next(cursor, part)) {
    if (part.token_index >= 0) {
      if (!on_token(normalized_matcher_.token(part.token_index), normalized.original(part.begin, part.end))) {
        return false;
      }
      continue;
    }
    BertSplitter splitter(normalized.text, part.begin, part.end);
    SplitWord word;
    while (splitter.next(word)) {
      if (!on_word(normalized, word)) return false;
    }
  }
  return true;
}

}  // namespace finetune
