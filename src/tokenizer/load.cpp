#include "finetune/tokenizer/tokenizer.h"
#include "pipeline_loader.h"
#include "pipeline_tokenizer.h"
#include "tokenizer_directory.h"
#include "wordpiece_files.h"
#include "wordpiece_tokenizer.h"

namespace finetune {

std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& path) {
  const TokenizerDirectory directory = read_tokenizer_directory(path);
  const TokenizerChoice choice = choose_tokenizer(directory);
  const bool from_file = choice.build == TokenizerBuild::kFromFile;
  if (choice.build == TokenizerBuild::kFamily ||
      (from_file && !(directory.tokenizer && is_bert_pipeline(*directory.tokenizer)))) {
    return std::make_unique<PipelineTokenizer>(load_pipeline_spec(directory, choice));
  }
  return std::make_unique<WordPieceTokenizer>(load_wordpiece_spec(directory, choice));
}

}  // namespace finetune
