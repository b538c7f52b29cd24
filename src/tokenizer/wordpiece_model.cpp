#include "wordpiece_model.h"

#include <utility>

namespace finetune {
namespace {

PieceTrie make_trie(const Vocabulary& vocabulary) {
  std::vector<std::pair<std::string_view, int32_t>> entries;
  entries.reserve(static_cast<size_t>(vocabulary.num_tokens()));
  for (int32_t id = 0; id < vocabulary.end_id(); ++id) {
    if (vocabulary.contains(id) && !vocabulary.token(id).empty())
      entries.emplace_back(vocabulary.token(id), id);
  }
  return PieceTrie(std::move(entries));
}

}  // namespace

WordPieceModel::WordPieceModel(const Vocabulary& vocabulary, const WordPieceOptions& options)
    : trie_(make_trie(vocabulary)),
      continuation_(trie_.node(options.continuing_subword_prefix)),
      unknown_id_(vocabulary.id(options.unk_token).value()),
      max_characters_(options.max_input_chars_per_word) {}

}  // namespace finetune
