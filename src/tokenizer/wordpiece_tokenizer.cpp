#include "wordpiece_tokenizer.h"

#include <algorithm>

#include "finetune/core/error.h"
#include "finetune/core/hash.h"
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

}  // namespace

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

int64_t WordPieceTokenizer::vocab_size() const { return spec_.num_ids(); }

std::string WordPieceTokenizer::id_to_token(int32_t id) const { return spec_.token(id); }

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
