#include "grapheme.h"

#include "unicode_tables.h"
#include "utf8.h"

namespace finetune {
namespace {

using unicode::HangulType;

bool joins_hangul(HangulType before, HangulType after) {
  switch (before) {
    case HangulType::kLeading:
      return after != HangulType::kNone && after != HangulType::kTrailing;
    case HangulType::kOpenSyllable:
    case HangulType::kVowel:
      return after == HangulType::kVowel || after == HangulType::kTrailing;
    case HangulType::kClosedSyllable:
    case HangulType::kTrailing:
      return after == HangulType::kTrailing;
    default:
      return false;
  }
}

constexpr uint32_t kZeroWidthJoiner = 0x200D;

/// What the part of a cluster that was read tells about the boundary behind it.
class ClusterState {
 public:
  explicit ClusterState(uint32_t code_point) { read(code_point, unicode::cluster_flags(code_point)); }

  bool joins(uint32_t code_point, uint8_t flags) const {
    if ((flags_ & unicode::kClusterControl) != 0 || (flags & unicode::kClusterControl) != 0) {
      return last_ == '\r' && code_point == '\n';
    }
    if ((flags & unicode::kClusterJoinsPrevious) != 0 || (flags_ & unicode::kClusterPrepends) != 0)
      return true;
    if (joins_hangul(unicode::hangul_type(last_), unicode::hangul_type(code_point))) return true;
    if (joined_pictograph_ && (flags & unicode::kClusterPictograph) != 0) return true;
    return linked_consonant_ && (flags & unicode::kClusterConsonant) != 0;
  }

  void read(uint32_t code_point, uint8_t flags) {
    joined_pictograph_ = after_pictograph_ && code_point == kZeroWidthJoiner;
    after_pictograph_ = (flags & unicode::kClusterPictograph) != 0 ||
                        (after_pictograph_ && (flags & unicode::kClusterExtend) != 0);
    const bool linker = (flags & unicode::kClusterLinker) != 0;
    if ((flags & unicode::kClusterConsonant) != 0) {
      after_consonant_ = true;
      linked_consonant_ = false;
    } else if (after_consonant_ && (linker || (flags & unicode::kClusterLinkerExtend) != 0)) {
      linked_consonant_ |= linker;
    } else {
      after_consonant_ = linked_consonant_ = false;
    }
    last_ = code_point;
    flags_ = flags;
  }

 private:
  uint32_t last_ = 0;
  uint8_t flags_ = 0;
  bool after_pictograph_ = false;   ///< a pictograph, and since then only Extend
  bool joined_pictograph_ = false;  ///< the same, and a joiner
  bool after_consonant_ = false;    ///< a consonant, and since then only linkers and InCB=Extend
  bool linked_consonant_ = false;   ///< the same, with a linker
};

}  // namespace

size_t grapheme_end(std::string_view text, size_t begin) {
  const DecodedCodePoint first = decode_utf8(text, begin);
  ClusterState state(first.code_point);
  size_t end = begin + first.length;
  while (end < text.size()) {
    const DecodedCodePoint next = decode_utf8(text, end);
    const uint8_t flags = unicode::cluster_flags(next.code_point);
    if (!state.joins(next.code_point, flags)) break;
    state.read(next.code_point, flags);
    end += next.length;
  }
  return end;
}

}  // namespace finetune
