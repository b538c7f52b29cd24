#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace finetune {

/// Bytes [begin, end) of the original text.
struct ByteSpan {
  int32_t begin = 0;
  int32_t end = 0;
  bool operator==(const ByteSpan&) const = default;
};

/// One row, encoded. All vectors have one entry a token.
struct Encoding {
  std::vector<int32_t> input_ids;
  std::vector<int32_t> token_type_ids;
  std::vector<ByteSpan> offsets;      ///< into the text the token came from; {0, 0} for special tokens
  std::vector<int32_t> word_ids;      ///< index of the pre-tokenised word in its text; -1 for special tokens
  std::vector<int32_t> sequence_ids;  ///< 0: first text, 1: second; -1 for special tokens
  bool truncated = false;             ///< tokens were lost to `max_length`
};

/// What to do with a row that is longer than `max_length`. `kNone` leaves it as it is.
enum class TruncationStrategy { kLongestFirst, kOnlyFirst, kOnlySecond, kNone };

struct EncodeOptions {
  int64_t max_length = 512;  ///< special tokens included
  TruncationStrategy truncation = TruncationStrategy::kLongestFirst;
};

/// One row's ids, appended to a caller's arena: the path training takes, without offsets and without
/// allocation.
struct RowShape {
  int64_t num_tokens = 0;      ///< ids appended, special tokens included
  int64_t second_segment = 0;  ///< first position whose token type is 1; num_tokens where there is none
  bool truncated = false;
};

/// Encodes rows one after the other, with buffers and caches of its own: for one thread. What it gives does
/// not depend on the rows before.
class RowEncoder {
 public:
  virtual ~RowEncoder() = default;
  /// As `Tokenizer::append`.
  virtual RowShape append(std::string_view text, std::optional<std::string_view> pair,
                          const EncodeOptions& options, std::vector<int32_t>& ids) = 0;
};

/// Text to ids exactly as `transformers`' fast tokenizer gives them. Immutable after construction: every
/// method may be called from several threads at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Appends the ids of a row, special tokens included, to `ids`.
  /// Throws `DataError` where the strategy cannot satisfy `max_length` (only_first with a second text that is
  /// too long), `ConfigError` where `max_length` has no room for the special tokens.
  virtual RowShape append(std::string_view text, std::optional<std::string_view> pair,
                          const EncodeOptions& options, std::vector<int32_t>& ids) const = 0;

  /// For many rows: the quickest way to `append`. Must not outlive the tokenizer.
  virtual std::unique_ptr<RowEncoder> row_encoder() const;

  /// The same row with offsets and word ids.
  virtual Encoding encode(std::string_view text, std::optional<std::string_view> pair,
                          const EncodeOptions& options) const = 0;

  /// Ids and offsets of one text without special tokens and without truncation.
  virtual Encoding encode_plain(std::string_view text) const = 0;

  /// One word of a list, as the reference encodes lists of words (`is_split_into_words`): byte-level BPE
  /// reads it with a blank before it, as in the middle of a text. Offsets are the word's.
  virtual Encoding encode_word(std::string_view word) const { return encode_plain(word); }

  /// A list of words as one text, as the reference encodes it (`is_split_into_words`); `word_ids` are places
  /// in the list, and a word that gives no token has none. Offsets are each word's own. Throws as `encode`.
  Encoding encode_words(const std::vector<std::string>& words, const EncodeOptions& options) const;

  /// Special tokens around the tokens of one text, which are cut as `options` say. Throws as `encode`.
  virtual Encoding frame(const Encoding& tokens, const EncodeOptions& options) const = 0;

  /// Number of ids, added tokens included: one more than the largest id.
  virtual int64_t vocab_size() const = 0;
  virtual std::string id_to_token(int32_t id) const = 0;
  virtual std::optional<int32_t> token_to_id(std::string_view token) const = 0;
  virtual int32_t pad_id() const = 0;

  /// Special tokens that a single text, or a pair, is given.
  virtual int64_t num_special_tokens(bool pair) const = 0;

  /// Changes when any input that decides ids changes (vocabulary, options): part of cache keys and resume
  /// checks.
  virtual std::string fingerprint() const = 0;

  /// Writes the tokenizer files of a Hugging Face directory, with the settings in force.
  virtual void save(const std::filesystem::path& directory) const = 0;
};

/// Loads the tokenizer of a Hugging Face directory: `tokenizer.json`, or the family's own files, with the
/// settings of `tokenizer_config.json`, which win. Conflicts between files are logged as warnings. Throws
/// `CheckpointError` naming the file, what was found and what was expected.
std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& directory);

}  // namespace finetune
