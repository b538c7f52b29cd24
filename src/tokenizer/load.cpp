#include "finetune/tokenizer/tokenizer.h"
#include "tokenizer_directory.h"
#include "wordpiece_files.h"
#include "wordpiece_tokenizer.h"

namespace finetune {

std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& path) {
  const TokenizerDirectory directory = read_tokenizer_directory(path);
  const TokenizerChoice choice = choose_tokenizer(directory);
  return std::make_unique<WordPieceTokenizer>(load_wordpiece_spec(directory, choice));
}

}  // namespace finetune
