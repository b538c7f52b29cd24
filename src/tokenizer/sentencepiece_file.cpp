#include "sentencepiece_file.h"

#include <cstring>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "finetune/core/error.h"
#include "finetune/core/file.h"
#include "finetune/core/text.h"

namespace finetune {
namespace {

/// The fields of a protocol buffer message, in the wire format (protobuf.dev/programming-guides/encoding).
class Message {
 public:
  explicit Message(std::string_view bytes) : rest_(bytes) {}

  struct Field {
    uint64_t number = 0;
    uint64_t value = 0;      ///< of a number
    std::string_view bytes;  ///< of a text or a message
  };

  /// False at the end. Throws `std::runtime_error` where the bytes are no message.
  bool next(Field& field) {
    if (rest_.empty()) return false;
    const uint64_t key = varint();
    field = {key >> 3, 0, {}};
    switch (key & 7) {
      case kVarint:
        field.value = varint();
        break;
      case kFixed64:
        take(8);
        break;
      case kBytes:
        field.bytes = take(varint());
        break;
      case kFixed32: {
        uint32_t value = 0;
        const std::string_view bytes = take(4);
        for (size_t i = 4; i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[i]);
        field.value = value;
        break;
      }
      default:
        throw std::runtime_error("a field of an unknown kind");
    }
    if (field.number == 0) throw std::runtime_error("a field without number");
    return true;
  }

 private:
  enum WireType : uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

  uint64_t varint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<uint8_t>(take(1)[0]);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    throw std::runtime_error("a number of more than ten bytes");
  }

  std::string_view take(uint64_t size) {
    if (size > rest_.size()) throw std::runtime_error("an end in the middle of a field");
    const std::string_view bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return bytes;
  }

  std::string_view rest_;
};

SentencePieceFile::Piece parse_piece(std::string_view bytes) {
  SentencePieceFile::Piece piece;
  Message message(bytes);
  for (Message::Field field; message.next(field);) {
    if (field.number == 1) piece.text = field.bytes;
    if (field.number == 2) {
      const auto bits = static_cast<uint32_t>(field.value);
      std::memcpy(&piece.score, &bits, sizeof(bits));
    }
    if (field.number == 3) piece.type = static_cast<SentencePieceFile::Type>(field.value);
  }
  if (find_invalid_utf8(piece.text) != std::string_view::npos) {
    throw std::runtime_error("a piece that is not UTF-8");
  }
  return piece;
}

void parse_trainer(std::string_view bytes, SentencePieceFile& file) {
  Message message(bytes);
  for (Message::Field field; message.next(field);) {
    const auto number = static_cast<int64_t>(field.value);
    switch (field.number) {
      case 3:
        file.model_type = number;
        break;
      case 35:
        file.byte_fallback = number != 0;
        break;
      case 40:
        file.unk_id = number;
        break;
      case 41:
        file.bos_id = number;
        break;
      case 42:
        file.eos_id = number;
        break;
      case 45:
        file.unk_piece = field.bytes;
        break;
      case 46:
        file.bos_piece = field.bytes;
        break;
      case 47:
        file.eos_piece = field.bytes;
        break;
      default:
        break;
    }
  }
}

void parse_normalizer(std::string_view bytes, SentencePieceFile& file) {
  Message message(bytes);
  for (Message::Field field; message.next(field);) {
    switch (field.number) {
      case 2:
        file.charsmap = field.bytes;
        break;
      case 3:
        file.add_dummy_prefix = field.value != 0;
        break;
      case 4:
        file.remove_extra_whitespaces = field.value != 0;
        break;
      case 5:
        file.escape_whitespaces = field.value != 0;
        break;
      default:
        break;
    }
  }
}

SentencePieceFile parse_model(std::string_view bytes) {
  SentencePieceFile file;
  Message message(bytes);
  for (Message::Field field; message.next(field);) {
    if (field.number == 1) file.pieces.push_back(parse_piece(field.bytes));
    if (field.number == 2) parse_trainer(field.bytes, file);
    if (field.number == 3) parse_normalizer(field.bytes, file);
  }
  if (file.pieces.empty()) throw std::runtime_error("no pieces");
  return file;
}

}  // namespace

SentencePieceFile read_sentencepiece(const std::filesystem::path& path) {
  try {
    return parse_model(read_file(path));
  } catch (const std::system_error& error) {
    throw CheckpointError(std::string(error.what()) + "; check the path and its permissions");
  } catch (const std::runtime_error& error) {
    throw CheckpointError(
        path.string() + ": found " + error.what() +
        ", expected a SentencePiece model; copy the file anew from where the model came from");
  }
}

}  // namespace finetune
