#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace finetune {

/// A SentencePiece model file, as far as a tokenizer follows from it. Read directly: the library's interface
/// gives neither the normaliser nor the trainer settings that the reference builds on.
struct SentencePieceFile {
  enum class Type : int32_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };
  struct Piece {
    std::string text;
    float score = 0;
    Type type = Type::kNormal;
  };
  static constexpr int64_t kUnigram = 1;
  static constexpr int64_t kBpe = 2;

  std::vector<Piece> pieces;
  int64_t model_type = kUnigram;
  int64_t unk_id = 0;
  int64_t bos_id = 1;
  int64_t eos_id = 2;
  std::string unk_piece = "<unk>";
  std::string bos_piece = "<s>";
  std::string eos_piece = "</s>";
  bool byte_fallback = false;
  std::string charsmap;  ///< `precompiled_charsmap`; empty where there is none
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
};

/// Throws `CheckpointError` where the file cannot be read, is cut off or is no model.
SentencePieceFile read_sentencepiece(const std::filesystem::path& path);

}  // namespace finetune
