#include "block_region.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

namespace finetune {
namespace {

constexpr size_t kGrowth = size_t{32} << 20;

size_t round_up(size_t value, size_t step) { return (value + step - 1) / step * step; }

}  // namespace

BlockRegion::BlockRegion(size_t capacity) : capacity_(round_up(capacity, kGrowth)) {
  void* const address =
      ::mmap(nullptr, capacity_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) {
    capacity_ = 0;
    return;
  }
  base_ = static_cast<char*>(address);
  free_.emplace(0, capacity_);
}

BlockRegion::~BlockRegion() {
  if (base_ != nullptr) ::munmap(base_, capacity_);
}

bool BlockRegion::grow_to(size_t end) {
  if (end <= usable_) return true;
  const size_t usable = round_up(end, kGrowth);
  if (::mprotect(base_ + usable_, usable - usable_, PROT_READ | PROT_WRITE) != 0) return false;
  // Fewer, larger pages where the system has them; it may refuse.
  ::madvise(base_ + usable_, usable - usable_, MADV_HUGEPAGE);
  usable_ = usable;
  return true;
}

void* BlockRegion::take(size_t size) {
  size = round_up(std::max<size_t>(size, 1), kAlignment);
  const auto gap =
      std::find_if(free_.begin(), free_.end(), [size](const auto& entry) { return entry.second >= size; });
  if (gap == free_.end() || !grow_to(gap->first + size)) return nullptr;
  const auto [offset, room] = *gap;
  free_.erase(gap);
  if (room > size) free_.emplace(offset + size, room - size);
  taken_.emplace(offset, size);
  taken_bytes_ += size;
  high_water_ = std::max(high_water_, offset + size);
  return base_ + offset;
}

void BlockRegion::give_back(void* block) {
  const auto entry = taken_.find(static_cast<size_t>(static_cast<char*>(block) - base_));
  size_t offset = entry->first, size = entry->second;
  taken_.erase(entry);
  taken_bytes_ -= size;
  auto next = free_.lower_bound(offset);
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      offset = previous->first;
      size += previous->second;
      free_.erase(previous);
    }
  }
  if (next != free_.end() && offset + size == next->first) {
    size += next->second;
    free_.erase(next);
  }
  free_.emplace(offset, size);
}

bool BlockRegion::contains(const void* address) const {
  const char* const place = static_cast<const char*>(address);
  return base_ != nullptr && place >= base_ && place < base_ + capacity_;
}

void BlockRegion::release_unused() {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  for (const auto& [offset, size] : free_) {
    const size_t begin = round_up(offset, page);
    const size_t end = std::min(offset + size, usable_) / page * page;
    if (begin < end) ::madvise(base_ + begin, end - begin, MADV_DONTNEED);
  }
}

}  // namespace finetune
