#include "finetune/batching/batcher.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "batching/device_dataset.h"
#include "finetune/core/error.h"

namespace finetune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::ThrowsMessage;

TEST(EpochOrder, IsAPermutation) {
  for (const int64_t num_rows : {1, 2, 17, 1000}) {
    auto order = epoch_order(num_rows, /*seed=*/42, /*epoch=*/3, /*shuffle=*/true);
    std::sort(order.begin(), order.end());
    std::vector<int64_t> expected(static_cast<size_t>(num_rows));
    std::iota(expected.begin(), expected.end(), int64_t{0});
    EXPECT_EQ(order, expected) << num_rows;
  }
}

TEST(EpochOrder, DependsOnSeedAndEpochAlone) {
  const auto order = epoch_order(100, 42, 3, true);
  EXPECT_EQ(epoch_order(100, 42, 3, true), order);
  EXPECT_NE(epoch_order(100, 43, 3, true), order);
  EXPECT_NE(epoch_order(100, 42, 4, true), order);
}

TEST(EpochOrder, PutsEveryRowAnywhere) {
  // In 600 epochs each of 6 rows comes first 100 times on average; the standard deviation is 9.
  std::vector<int> came_first(6);
  for (int64_t epoch = 0; epoch < 600; ++epoch) {
    ++came_first[static_cast<size_t>(epoch_order(6, 1, epoch, true).front())];
  }
  for (const int count : came_first) EXPECT_NEAR(count, 100, 45);
}

TEST(EpochOrder, WithoutShuffleIsFileOrder) {
  EXPECT_THAT(epoch_order(4, 42, 7, false), ElementsAre(0, 1, 2, 3));
}

class BatcherTest : public ::testing::Test {
 protected:
  BatcherTest() : dataset_(testing::make_dataset({3, 5, 2, 4, 6, 2, 3, 5, 4})) {}

  Batcher make(const Batcher::Options& options) {
    return Batcher(dataset_, std::vector<double>(static_cast<size_t>(dataset_.num_rows()), 1.0), options);
  }

  DeviceDataset dataset_;  ///< 9 rows
};

TEST_F(BatcherTest, LastWindowOfAnEpochMayBeShortAndNoneSpansEpochs) {
  Batcher batcher = make({.batch_size = 4, .shuffle = false});
  EXPECT_EQ(batcher.steps_per_epoch(), 3);
  for (const int64_t epoch : {0, 1, 2}) {
    EXPECT_THAT(batcher.at(3 * epoch).rows, ElementsAre(0, 1, 2, 3));
    EXPECT_THAT(batcher.at(3 * epoch + 1).rows, ElementsAre(4, 5, 6, 7));
    EXPECT_THAT(batcher.at(3 * epoch + 2).rows, ElementsAre(8));
  }
}

TEST_F(BatcherTest, DropLastLeavesTheShortWindowOut) {
  Batcher batcher = make({.batch_size = 4, .drop_last = true, .shuffle = false});
  EXPECT_EQ(batcher.steps_per_epoch(), 2);
  EXPECT_THAT(batcher.at(2).rows, ElementsAre(0, 1, 2, 3));  // of the second epoch
}

TEST_F(BatcherTest, EachEpochHasEveryRowOnceInAnOrderOfItsOwn) {
  Batcher batcher = make({.batch_size = 4, .seed = 5});
  std::vector<std::vector<int64_t>> epochs(2);
  for (int64_t step = 0; step < 6; ++step) {
    const auto rows = batcher.at(step).rows;
    auto& epoch = epochs[static_cast<size_t>(step / 3)];
    epoch.insert(epoch.end(), rows.begin(), rows.end());
  }
  EXPECT_NE(epochs[0], epochs[1]);
  for (const auto& epoch : epochs) EXPECT_THAT(std::set<int64_t>(epoch.begin(), epoch.end()), SizeIs(9));
  EXPECT_EQ(epochs[1], epoch_order(9, 5, 1, true));
}

TEST_F(BatcherTest, AStepIsTheSameWhateverCameBefore) {
  Batcher one = make({.batch_size = 4, .seed = 5}), other = make({.batch_size = 4, .seed = 5});
  std::vector<std::vector<int64_t>> in_order;
  for (int64_t step = 0; step < 9; ++step) in_order.push_back(one.at(step).rows);
  for (const int64_t step : {7, 0, 8, 4, 4})
    EXPECT_EQ(other.at(step).rows, in_order[static_cast<size_t>(step)]);
}

TEST_F(BatcherTest, CutsAnUpdateIntoMicroBatches) {
  Batcher batcher = make({.batch_size = 5, .micro_batch_rows = 2, .shuffle = false});
  const StepBatch step = batcher.at(0);
  ASSERT_THAT(step.micro_batches, SizeIs(3));
  EXPECT_EQ(step.micro_batches[0].num_rows, 2);
  EXPECT_EQ(step.micro_batches[2].num_rows, 1);
  EXPECT_EQ(step.num_tokens, 3 + 5 + 2 + 4 + 6);
  EXPECT_EQ(step.label_weight, 5.0);
  // Dropout's row numbers count through the update.
  EXPECT_EQ(step.micro_batches[2].token_keys[0].item<int64_t>() >> 32, 4);
}

TEST_F(BatcherTest, TokenBudgetCutsToo) {
  Batcher batcher = make({.batch_size = 9, .micro_batch_tokens = 10, .shuffle = false});
  for (const Batch& batch : batcher.at(0).micro_batches) EXPECT_LE(batch.num_tokens, 10);
  EXPECT_THAT(batcher.at(0).micro_batches, SizeIs(4));  // 3+5+2, 4+6, 2+3+5, 4
}

TEST_F(BatcherTest, HalvesItsMicroBatchesUntilEachRowGoesAlone) {
  Batcher batcher = make({.batch_size = 4, .shuffle = false});
  ASSERT_THAT(batcher.at(0).micro_batches, SizeIs(1));  // 3 + 5 + 2 + 4 tokens
  std::vector<int64_t> tokens;
  while (batcher.halve_micro_batches(0)) {
    const StepBatch step = batcher.at(0);
    tokens.push_back(batcher.micro_batch_tokens());
    EXPECT_THAT(step.rows, ElementsAre(0, 1, 2, 3));
    EXPECT_EQ(step.num_tokens, 14);
  }
  EXPECT_THAT(tokens, ElementsAre(7, 3));  // 3 | 5 + 2 | 4, then 3 | 5 | 2 | 4
  EXPECT_THAT(batcher.at(0).micro_batches, SizeIs(4));
}

TEST_F(BatcherTest, SumsTheWeightsOfItsLabels) {
  Batcher batcher(dataset_, {1, 0, 2, 0.5, 1, 1, 1, 1, 4}, {.batch_size = 4, .shuffle = false});
  EXPECT_EQ(batcher.at(0).label_weight, 3.5);
  EXPECT_EQ(batcher.at(2).label_weight, 4.0);
}

TEST_F(BatcherTest, RefusesWhereNotOneUpdateCanBeMade) {
  EXPECT_THAT([this] { make({.batch_size = 10, .drop_last = true}); },
              ThrowsMessage<DataError>(HasSubstr("has 9 rows, train.batch_size is 10")));
  EXPECT_EQ(make({.batch_size = 10}).steps_per_epoch(), 1);
}

}  // namespace
}  // namespace finetune
