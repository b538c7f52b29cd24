#include "finetune/core/host_array.h"

#include <gmock/gmock.h>

#include <numeric>

namespace finetune {
namespace {

using testing::ElementsAre;

TEST(HostArray, Grows) {
  HostArray<int> array;
  std::vector<int> expected;
  for (int i = 0; i < 10'000; ++i) {
    if (i % 7 == 0) {
      const std::vector<int> more(static_cast<size_t>(i % 50), i);
      array.append(more.data(), more.data() + more.size());
      expected.insert(expected.end(), more.begin(), more.end());
    }
    array.push_back(i);
    expected.push_back(i);
  }
  EXPECT_TRUE(std::equal(array.begin(), array.end(), expected.begin(), expected.end()));
  EXPECT_EQ(array.num_bytes(), expected.size() * sizeof(int));
}

TEST(HostArray, ACopyOfItsOwnIsIndependent) {
  HostArray<int> array{1, 2};
  HostArray<int> copy = array;
  copy.push_back(3);
  EXPECT_THAT(array, ElementsAre(1, 2));
  EXPECT_THAT(copy, ElementsAre(1, 2, 3));
  array = std::move(copy);
  EXPECT_THAT(array, ElementsAre(1, 2, 3));
}

TEST(HostArray, SharedStorageLivesAsLongAsItIsUsed) {
  auto storage = std::make_shared<std::vector<int>>(std::vector{4, 5, 6});
  const std::weak_ptr<std::vector<int>> alive = storage;
  {
    HostArray<int> array({storage->data() + 1, 2}, storage);
    storage.reset();
    const HostArray<int> copy = array;
    EXPECT_EQ(copy.data(), array.data());
    EXPECT_THAT(copy, ElementsAre(5, 6));
    EXPECT_THROW(array.push_back(7), std::logic_error);
    EXPECT_FALSE(alive.expired());
  }
  EXPECT_TRUE(alive.expired());
}

TEST(HostArray, SharingKeepsTheElementsInPlace) {
  HostArray<int> array{1, 2, 3};
  const int* before = array.data();
  const auto owner = array.share();
  EXPECT_EQ(array.data(), before);
  array = {};
  EXPECT_EQ(before[2], 3) << "the owner keeps them";
  HostArray<int> empty;
  empty.share();
  EXPECT_TRUE(empty.empty());
}

}  // namespace
}  // namespace finetune
