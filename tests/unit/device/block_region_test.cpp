#include "device/block_region.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <random>
#include <vector>

namespace finetune {
namespace {

constexpr size_t kMebi = size_t{1} << 20;

size_t resident_bytes() {
  size_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

TEST(BlockRegion, TakesTheLowestPlaceThatHasRoom) {
  BlockRegion region(64 * kMebi);
  char* const first = static_cast<char*>(region.take(3 * kMebi));
  char* const second = static_cast<char*>(region.take(2 * kMebi));
  char* const third = static_cast<char*>(region.take(kMebi));
  ASSERT_EQ(second - first, 3 * static_cast<ptrdiff_t>(kMebi));
  ASSERT_EQ(third - second, 2 * static_cast<ptrdiff_t>(kMebi));
  region.give_back(first);
  EXPECT_EQ(region.take(4 * kMebi), third + kMebi);  // the gap is too small
  EXPECT_EQ(region.take(kMebi), first);
  EXPECT_EQ(region.take(2 * kMebi), first + kMebi);
}

TEST(BlockRegion, GapsSideBySideBecomeOne) {
  for (const std::vector<size_t>& order :
       {std::vector<size_t>{0, 1, 2}, {2, 1, 0}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}}) {
    BlockRegion region(64 * kMebi);
    void* const blocks[] = {region.take(kMebi), region.take(kMebi), region.take(kMebi)};
    void* const behind = region.take(kMebi);
    for (const size_t which : order) region.give_back(blocks[which]);
    EXPECT_EQ(region.take(3 * kMebi), blocks[0]);
    region.give_back(behind);
  }
}

TEST(BlockRegion, EqualStepsNeedNoMoreThanTheFirst) {
  BlockRegion region(256 * kMebi);
  void* const parameters = region.take(8 * kMebi);
  size_t after_first = 0;
  for (int step = 0; step < 20; ++step) {
    std::vector<void*> kept;
    for (size_t layer = 0; layer < 6; ++layer) {
      for (const size_t size : {9, 3, 12, 12}) kept.push_back(region.take(size * kMebi / 4));
    }
    while (!kept.empty()) {
      void* const gradient = region.take(3 * kMebi);
      region.give_back(kept.back());
      kept.pop_back();
      region.give_back(gradient);
    }
    if (step == 0) after_first = region.high_water();
    EXPECT_EQ(region.high_water(), after_first);
  }
  EXPECT_EQ(region.taken(), 8 * kMebi);
  region.give_back(parameters);
}

TEST(BlockRegion, BlocksAreAlignedAndDoNotOverlap) {
  BlockRegion region(64 * kMebi);
  std::mt19937 random(1);
  struct Block {
    unsigned char* begin;
    size_t size;
    unsigned char mark;
  };
  std::vector<Block> blocks;
  for (int i = 0; i < 4000; ++i) {
    if (blocks.size() < 20 || random() % 2 == 0) {
      const size_t size = 1 + random() % 300000;
      auto* const begin = static_cast<unsigned char*>(region.take(size));
      if (begin == nullptr) continue;
      ASSERT_EQ(reinterpret_cast<uintptr_t>(begin) % BlockRegion::kAlignment, 0u);
      ASSERT_TRUE(region.contains(begin) && region.contains(begin + size - 1));
      blocks.push_back({begin, size, static_cast<unsigned char>(random())});
      std::memset(begin, blocks.back().mark, size);
    } else {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      const Block& block = blocks.back();
      ASSERT_EQ(block.begin[0], block.mark);
      ASSERT_EQ(block.begin[block.size - 1], block.mark);
      region.give_back(block.begin);
      blocks.pop_back();
    }
  }
  for (const Block& block : blocks) {
    ASSERT_EQ(block.begin[0], block.mark);
    ASSERT_EQ(block.begin[block.size - 1], block.mark);
  }
}

TEST(BlockRegion, NullWhereThereIsNoRoom) {
  BlockRegion region(32 * kMebi);
  EXPECT_EQ(region.take(33 * kMebi), nullptr);
  void* const all = region.take(32 * kMebi);
  ASSERT_NE(all, nullptr);
  EXPECT_EQ(region.take(1), nullptr);
  region.give_back(all);
  EXPECT_NE(region.take(1), nullptr);
}

TEST(BlockRegion, GivesUnusedMemoryBack) {
  BlockRegion region(128 * kMebi);
  void* const kept = region.take(4 * kMebi);
  void* const large = region.take(64 * kMebi);
  std::memset(kept, 1, 4 * kMebi);
  std::memset(large, 1, 64 * kMebi);
  region.give_back(large);
  const size_t before = resident_bytes();
  region.release_unused();
  EXPECT_LT(resident_bytes() + 48 * kMebi, before);
  EXPECT_EQ(static_cast<unsigned char*>(kept)[4 * kMebi - 1], 1);
  std::memset(region.take(64 * kMebi), 2, 64 * kMebi);  // usable again
}

}  // namespace
}  // namespace finetune
