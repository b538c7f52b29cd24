#include "wordpiece_model.h"

namespace finetune {

WordPieceModel::WordPieceModel(const Vocabulary& vocabulary, const WordPieceOptions& options)
    : trie_(vocabulary),
      continuation_(trie_.node(options.continuing_subword_prefix)),
      unknown_id_(vocabulary.id(options.unk_token).value()),
      max_characters_(options.max_input_chars_per_word) {}

}  // namespace finetune
