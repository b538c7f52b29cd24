#include "pipeline_tokenizer.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "finetune/core/error.h"
#include "finetune/core/hash.h"
#include "pipeline_files.h"
#include "truncation.h"
#include "unicode_tables.h"
#include "unigram_model.h"

namespace finetune {
namespace {

/// WordPiece as one of the models that a pipeline may have.
class WordPieceSubwords : public SubwordModel {
 public:
  WordPieceSubwords(const Vocabulary& vocabulary, const WordPieceOptions& options)
      : model_(vocabulary, options) {}

  void append(std::string_view word, std::vector<Piece>& pieces) const override {
    const auto num_characters = std::count_if(
        word.begin(), word.end(), [](char byte) { return (static_cast<uint8_t>(byte) & 0xC0) != 0x80; });
    std::vector<Piece> found;
    model_.split(word, num_characters, found);
    pieces.insert(pieces.end(), found.begin(), found.end());
  }

 private:
  WordPieceModel model_;
};

std::unique_ptr<SubwordModel> make_model(const PipelineSpec& spec) {
  try {
    switch (spec.model) {
      case ModelKind::kBpe:
        return std::make_unique<BpeModel>(spec.vocabulary, spec.merges, spec.bpe);
      case ModelKind::kUnigram:
        return std::make_unique<UnigramModel>(spec.vocabulary, spec.scores, spec.unk_id, spec.byte_fallback);
      default:
        return std::make_unique<WordPieceSubwords>(spec.vocabulary, spec.wordpiece);
    }
  } catch (const std::invalid_argument& error) {
    throw CheckpointError(
        spec.place + ": found " + error.what() +
        ", which is not in the vocabulary; expected files that belong together: copy them anew");
  }
}

std::unique_ptr<PreTokenizer> make_splitter(const PipelineSpec& spec, bool before_words) {
  if (spec.pre_tokenizer.is_null()) return nullptr;
  return make_pre_tokenizer(spec.pre_tokenizer, spec.place + ": /pre_tokenizer", before_words);
}

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

void append_special(const std::vector<TemplateToken>& tokens, std::vector<int32_t>& ids) {
  for (const TemplateToken& token : tokens) ids.push_back(token.id);
}

/// Blanks at the beginning and at the end of a piece, the mark of byte-level vocabularies among them.
struct Blanks {
  int32_t leading = 0;
  int32_t trailing = 0;
};

Blanks count_blanks(std::string_view piece) {
  constexpr uint32_t kByteLevelBlank = 0x120;
  const auto is_blank = [](uint32_t code_point) {
    return code_point == kByteLevelBlank || unicode::is_white_space(code_point);
  };
  Blanks blanks;
  for (size_t position = 0; position < piece.size(); ++blanks.leading) {
    const DecodedCodePoint decoded = decode_utf8(piece, position);
    if (!is_blank(decoded.code_point)) break;
    position += decoded.length;
  }
  for (size_t end = piece.size(); end > 0; ++blanks.trailing) {
    const size_t start = previous_code_point(piece, end);
    if (!is_blank(decode_utf8(piece, start).code_point)) break;
    end = start;
  }
  return blanks;
}

/// Whether at least `count` characters of `text` end at or before byte `end`.
bool has_characters_before(std::string_view text, size_t end, int32_t count) {
  for (; count > 0 && end > 0; --count) end = previous_code_point(text, end);
  return count == 0;
}

}  // namespace

PipelineTokenizer::PipelineTokenizer(PipelineSpec spec) : spec_(std::move(spec)) {
  if (!spec_.normalizer.is_null()) {
    normalizer_ = make_normalizer(spec_.normalizer, spec_.place + ": /normalizer");
  }
  pre_tokenizer_ = make_splitter(spec_, false);
  word_pre_tokenizer_ = make_splitter(spec_, true);
  model_ = make_model(spec_);
  raw_matcher_ = make_matcher(false);
  normalized_matcher_ = make_matcher(true);
  pad_id_ = spec_.token_id(spec_.named_token("pad_token")).value_or(0);
  Xxh3 hash;
  hash.update(pipeline_tokenizer_json(spec_));
  hash.update(spec_.truncate_left ? "left" : "right");
  hash.update(spec_.split_special_tokens ? "split" : "whole");
  fingerprint_ = hash.hex();
}

AddedTokenMatcher PipelineTokenizer::make_matcher(bool normalized) const {
  std::vector<AddedToken> tokens;
  std::vector<std::string> patterns;
  for (const AddedToken& token : spec_.added_tokens) {
    if (token.normalized != normalized || (spec_.split_special_tokens && token.special)) continue;
    AlignedText pattern = make_aligned(token.content, 0, token.content.size(), false);
    if (normalized && normalizer_) normalizer_->normalize(pattern);
    tokens.push_back(token);
    patterns.push_back(std::move(pattern.text));
  }
  return AddedTokenMatcher(std::move(tokens), patterns);
}

PipelineTokenizer::Request PipelineTokenizer::request(bool offsets, int64_t limit) const {
  return {pre_tokenizer_.get(), offsets, limit};
}

TextTokens PipelineTokenizer::read(std::string_view text, const Request& request) const {
  TextTokens tokens;
  const bool tracked = request.offsets || (pre_tokenizer_ && pre_tokenizer_->needs_origins());
  AddedTokenMatcher::Cursor cursor{text};
  TextSegment segment;
  while (tokens.complete && raw_matcher_.next(cursor, segment)) {
    const auto begin = static_cast<int32_t>(segment.begin), end = static_cast<int32_t>(segment.end);
    tokens.complete =
        segment.token_index >= 0
            ? add_token(raw_matcher_.token(segment.token_index), {begin, end}, request, tokens)
            : read_segment(make_aligned(text, segment.begin, segment.end, tracked), request, tokens);
  }
  return tokens;
}

bool PipelineTokenizer::read_segment(AlignedText text, const Request& request, TextTokens& tokens) const {
  if (normalizer_) normalizer_->normalize(text);
  AddedTokenMatcher::Cursor cursor{text.text};
  TextSegment part;
  while (normalized_matcher_.next(cursor, part)) {
    if (part.token_index >= 0) {
      const ByteSpan span = text.tracked ? text.original(part.begin, part.end) : ByteSpan{};
      if (!add_token(normalized_matcher_.token(part.token_index), span, request, tokens)) return false;
      continue;
    }
    SplitText words{{{}, text.tracked, text.origin}, {}};
    words.text.append(text, part.begin, part.end);
    words.add_word(0, words.text.text.size());
    if (request.pre_tokenizer != nullptr) request.pre_tokenizer->split(words);
    if (!read_words(words, request, tokens)) return false;
  }
  return true;
}

bool PipelineTokenizer::read_words(SplitText& words, const Request& request, TextTokens& tokens) const {
  std::vector<Piece> pieces;
  for (const auto& [begin, end] : words.words) {
    if (tokens.size() >= request.limit) return false;
    pieces.clear();
    model_->append(std::string_view(words.text.text).substr(begin, end - begin), pieces);
    for (const Piece& piece : pieces) {
      if (request.offsets) {
        tokens.add(piece.id, words.text.original(begin + piece.begin, begin + piece.end));
      } else {
        tokens.ids.push_back(piece.id);
      }
    }
    ++tokens.num_words;
  }
  return true;
}

bool PipelineTokenizer::add_token(const AddedToken& token, ByteSpan span, const Request& request,
                                  TextTokens& tokens) const {
  if (tokens.size() >= request.limit) return false;
  if (request.offsets) {
    tokens.add(token.id, span);
  } else {
    tokens.ids.push_back(token.id);
  }
  ++tokens.num_words;
  return true;
}

RowShape PipelineTokenizer::append(std::string_view text, std::optional<std::string_view> pair,
                                   const EncodeOptions& options, std::vector<int32_t>& ids) const {
  const RowTemplate& rows = spec_.post_processor.rows;
  check_room(rows, pair.has_value(), options);
  const int64_t limit = spec_.truncate_left ? kNoLimit : read_limit(options, pair.has_value());
  const TextTokens first = read(text, request(false, limit));
  const TextTokens second = pair ? read(*pair, request(false, limit)) : TextTokens{};
  const KeptTokens kept =
      truncate_to(first.size(), pair ? std::optional(second.size()) : std::nullopt,
                  options.max_length - num_special_tokens(pair.has_value()), options.truncation);
  const size_t row_begin = ids.size();
  const auto append_kept = [&](const TextTokens& tokens, int64_t count) {
    const auto begin = tokens.ids.begin() + (spec_.truncate_left ? tokens.size() - count : 0);
    ids.insert(ids.end(), begin, begin + count);
  };
  RowShape shape;
  append_special(pair ? rows.pair.before : rows.single.before, ids);
  append_kept(first, kept.first);
  const size_t first_end = ids.size();
  if (pair) {
    append_special(rows.pair.between, ids);
    append_kept(second, kept.second);
  }
  append_special(pair ? rows.pair.after : rows.single.after, ids);
  shape.num_tokens = static_cast<int64_t>(ids.size() - row_begin);
  shape.truncated =
      !first.complete || !second.complete || kept.first < first.size() || kept.second < second.size();
  shape.second_segment = shape.num_tokens;
  if (pair && rows.pair.second_type_id == 1) {
    const auto& between = rows.pair.between;
    const auto zeros =
        std::count_if(between.begin(), between.end(), [](const auto& token) { return token.type_id == 0; });
    shape.second_segment = static_cast<int64_t>(first_end - row_begin) + zeros;
  }
  return shape;
}

Encoding PipelineTokenizer::encode(std::string_view text, std::optional<std::string_view> pair,
                                   const EncodeOptions& options) const {
  const RowTemplate& rows = spec_.post_processor.rows;
  check_room(rows, pair.has_value(), options);
  const int64_t limit = spec_.truncate_left ? kNoLimit : read_limit(options, pair.has_value());
  const TextTokens first = read(text, request(true, limit));
  const TextTokens second = pair ? read(*pair, request(true, limit)) : TextTokens{};
  Encoding encoding = assemble_row(first, pair ? &second : nullptr, rows, options, spec_.truncate_left);
  trim_offsets(text, pair.value_or(""), encoding);
  return encoding;
}

Encoding PipelineTokenizer::encode_plain(std::string_view text) const {
  Encoding encoding = plain_encoding(read(text, request(true, kNoLimit)));
  trim_offsets(text, "", encoding);
  return encoding;
}

Encoding PipelineTokenizer::frame(const Encoding& tokens, const EncodeOptions& options) const {
  return frame_tokens(tokens, spec_.post_processor.rows, options, spec_.truncate_left);
}

Encoding PipelineTokenizer::encode_word(std::string_view word) const {
  Encoding encoding = plain_encoding(read(word, {word_pre_tokenizer_.get(), true, kNoLimit}));
  trim_offsets(word, "", encoding);
  return encoding;
}

void PipelineTokenizer::trim_offsets(std::string_view text, std::string_view pair, Encoding& encoding) const {
  if (!spec_.post_processor.trim.trims) return;
  int32_t last_sequence = -1;
  for (size_t i = 0; i < encoding.input_ids.size(); ++i) {
    const int32_t sequence = encoding.sequence_ids[i];
    if (sequence < 0) continue;
    const bool first = sequence != last_sequence;
    last_sequence = sequence;
    ByteSpan& span = encoding.offsets[i];
    span = trimmed(span, encoding.input_ids[i], first, sequence == 0 ? text : pair);
  }
}

/// Leaves the blanks of a piece out of its span. The reference counts them in the piece and takes as many
/// characters of the text, whatever these are.
ByteSpan PipelineTokenizer::trimmed(ByteSpan span, int32_t id, bool first, std::string_view text) const {
  const auto added = std::find_if(spec_.added_tokens.begin(), spec_.added_tokens.end(),
                                  [&](const AddedToken& token) { return token.id == id; });
  const auto begin = static_cast<size_t>(span.begin), end = static_cast<size_t>(span.end);
  // An added token is shown as it stands in the text, with the white space that it took.
  Blanks blanks =
      count_blanks(added == spec_.added_tokens.end() ? std::string_view(spec_.vocabulary.token(id))
                                                     : text.substr(begin, end - begin));
  if (blanks.leading == 1 && (first || span.begin == 0) && spec_.post_processor.trim.add_prefix_space) {
    blanks.leading = 0;
  }
  for (; blanks.leading > 0 && span.begin < span.end; --blanks.leading) {
    span.begin += static_cast<int32_t>(decode_utf8(text, static_cast<size_t>(span.begin)).length);
  }
  if (!has_characters_before(text, end, blanks.trailing)) return span;
  for (; blanks.trailing > 0 && span.begin < span.end; --blanks.trailing) {
    span.end = static_cast<int32_t>(previous_code_point(text, static_cast<size_t>(span.end)));
  }
  return span;
}

int64_t PipelineTokenizer::vocab_size() const { return spec_.num_ids(); }

std::string PipelineTokenizer::id_to_token(int32_t id) const { return spec_.token(id); }

std::optional<int32_t> PipelineTokenizer::token_to_id(std::string_view token) const {
  return spec_.token_id(token);
}

int64_t PipelineTokenizer::num_special_tokens(bool pair) const {
  const RowTemplate& rows = spec_.post_processor.rows;
  return pair ? rows.pair.num_special() : rows.single.num_special();
}

void PipelineTokenizer::save(const std::filesystem::path& directory) const {
  save_pipeline_files(spec_, directory);
}

}  // namespace finetune
