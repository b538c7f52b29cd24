#pragma once

#include <cstddef>
#include <map>
#include <unordered_map>

namespace finetune {

/// A range of addresses from which large blocks are taken, always at the lowest place that has room.
///
/// Once all that a training step took is given back, the next step finds the region as the last one did: no
/// small allocation that outlives the step lies in between, as in the C library's heap, where such pins make
/// steps of equal sizes need a sixth more. Pages stay resident until `release_unused`, for the system clears
/// each page that it hands out. Not safe for several threads at once.
class BlockRegion {
 public:
  /// Blocks begin at multiples of this: a cache line, and what vector instructions want.
  static constexpr size_t kAlignment = 64;

  /// Reserves addresses, without memory behind them. `capacity`: bytes, rounded up to whole steps of growth.
  explicit BlockRegion(size_t capacity);
  ~BlockRegion();
  BlockRegion(const BlockRegion&) = delete;
  BlockRegion& operator=(const BlockRegion&) = delete;

  /// Null where the region has no room, the system gave no addresses, or it has no memory left.
  void* take(size_t size);
  /// `block`: from `take`.
  void give_back(void* block);
  bool contains(const void* address) const;

  /// Gives the memory of what is not taken back to the system; the addresses stay.
  void release_unused();

  /// Bytes from the region's begin to the end of the highest block ever taken.
  size_t high_water() const { return high_water_; }
  size_t taken() const { return taken_bytes_; }

 private:
  bool grow_to(size_t end);

  char* base_ = nullptr;
  size_t capacity_ = 0;
  size_t usable_ = 0;  ///< bytes from the begin that may be touched
  size_t high_water_ = 0;
  size_t taken_bytes_ = 0;
  std::map<size_t, size_t> free_;             ///< offset and size of the gaps, never two side by side
  std::unordered_map<size_t, size_t> taken_;  ///< offset and size
};

}  // namespace finetune
