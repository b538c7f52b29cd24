#pragma once

#include <c10/core/ScalarType.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace finetune {

/// Writes a pickle of protocol 2 (Lib/pickletools.py), as torch.save does: what a checkpoint is made of, and
/// nothing else. Values follow each other; a dict's are keys and values in turn.
class PickleWriter {
 public:
  PickleWriter() { out_ = std::string("\x80\x02", 2); }

  void none() { out_ += 'N'; }
  void boolean(bool value) { out_ += value ? '\x88' : '\x89'; }
  void integer(int64_t value);
  void real(double value);
  void text(std::string_view value);

  void begin_dict() { out_ += "}("; }
  void end_dict() { out_ += 'u'; }
  void begin_list() { out_ += "]("; }
  void end_list() { out_ += 'e'; }
  void begin_tuple() { out_ += '('; }
  void end_tuple() { out_ += 't'; }

  /// A dense row-major tensor that is all of the storage data/KEY. Throws `CheckpointError` for a dtype that
  /// torch has no storage type of.
  void tensor(const std::string& key, at::ScalarType dtype, c10::IntArrayRef sizes);

  /// The whole pickle; nothing may be written after it.
  std::string finish() {
    out_ += '.';
    return std::move(out_);
  }

 private:
  void global(std::string_view module, std::string_view name);
  template <typename T>
  void little_endian(T value) {
    for (size_t i = 0; i < sizeof(T); ++i) out_ += static_cast<char>(static_cast<uint64_t>(value) >> (8 * i));
  }

  std::string out_;
};

}  // namespace finetune
