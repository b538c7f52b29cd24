#pragma once

#include <filesystem>
#include <string>

#include "tokenizer_directory.h"
#include "wordpiece_tokenizer.h"

namespace finetune {

/// Reads a WordPiece tokenizer in the way `choice` says. Logs a warning where files disagree, or where a
/// default decides that the files speak against. Throws `CheckpointError`.
WordPieceSpec load_wordpiece_spec(const TokenizerDirectory& directory, const TokenizerChoice& choice);

/// A vocab.txt: one token a line, as Python reads a text file (a line ends at LF, CR or CR LF). Throws
/// `CheckpointError`.
Vocabulary read_vocabulary_lines(const std::filesystem::path& file);

/// The text of tokenizer.json. Says everything that decides ids but for the two switches of truncation and
/// special tokens.
std::string wordpiece_tokenizer_json(const WordPieceSpec& spec);

/// Writes vocab.txt, tokenizer.json, tokenizer_config.json and special_tokens_map.json, from which
/// `transformers`' AutoTokenizer and `load_tokenizer` make the same ids. Creates the directory.
void save_wordpiece_files(const WordPieceSpec& spec, const std::filesystem::path& directory);

}  // namespace finetune
