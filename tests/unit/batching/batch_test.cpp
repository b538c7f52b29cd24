#include "finetune/batching/batch.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "batching/device_dataset.h"

namespace finetune {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

template <typename T>
std::vector<T> values(const at::Tensor& tensor) {
  const auto flat = tensor.contiguous();
  return {flat.const_data_ptr<T>(), flat.const_data_ptr<T>() + flat.numel()};
}

std::vector<int64_t> rows_of(const std::vector<BatchPlan>& plans) {
  std::vector<int64_t> rows;
  for (const BatchPlan& plan : plans) rows.push_back(plan.num_rows);
  return rows;
}

TEST(PlanBatches, CutsByRows) {
  const auto plans = plan_batches({5, 6, 7, 8, 9}, {0, 1, 2, 3, 4}, 0, 5, /*max_rows=*/2, /*max_tokens=*/0);
  EXPECT_THAT(rows_of(plans), ElementsAre(2, 2, 1));
  EXPECT_EQ(plans[1].begin, 2);
  EXPECT_EQ(plans[1].first_row, 2);
  EXPECT_EQ(plans[1].num_tokens, 15);
  EXPECT_EQ(plans[1].max_length, 8);
}

TEST(PlanBatches, CutsByTokensInTheOrderGiven) {
  const auto plans = plan_batches({5, 1, 3, 4}, {3, 2, 1, 0}, 0, 4, /*max_rows=*/0, /*max_tokens=*/8);
  EXPECT_THAT(rows_of(plans), ElementsAre(3, 1));  // 4 + 3 + 1, then 5
}

TEST(PlanBatches, GivesALongRowABatchOfItsOwn) {
  const auto plans = plan_batches({2, 50, 2}, {0, 1, 2}, 0, 3, /*max_rows=*/0, /*max_tokens=*/8);
  EXPECT_THAT(rows_of(plans), ElementsAre(1, 1, 1));
  EXPECT_EQ(plans[1].num_tokens, 50);
}

TEST(PlanBatches, CountsTheRowInTheUpdateFromTheWindowsBegin) {
  const auto plans = plan_batches({1, 1, 1, 1, 1}, {4, 3, 2, 1, 0}, 2, 5, /*max_rows=*/2, /*max_tokens=*/0);
  EXPECT_THAT(rows_of(plans), ElementsAre(2, 1));
  EXPECT_EQ(plans[0].begin, 2);
  EXPECT_EQ(plans[0].first_row, 0);
  EXPECT_EQ(plans[1].first_row, 2);
}

TEST(PlanBatches, OfNoRowsIsEmpty) { EXPECT_THAT(plan_batches({1, 2}, {0, 1}, 1, 1, 2, 0), SizeIs(0)); }

TEST(BatchSource, PacksRowsInTheirOrder) {
  const DeviceDataset dataset = testing::make_dataset({3, 2, 4});
  const std::vector<int64_t> order{2, 0, 1};
  const BatchSource source(dataset, order, plan_batches(dataset.lengths, order, 0, 3, /*max_rows=*/2, 0));
  ASSERT_EQ(source.size(), 2);

  const Batch first = source.batch(0);
  EXPECT_EQ(first.num_rows, 2);
  EXPECT_EQ(first.num_tokens, 7);
  EXPECT_EQ(first.max_length, 4);
  EXPECT_THAT(values<int32_t>(first.input_ids), ElementsAre(200, 201, 202, 203, 0, 1, 2));
  EXPECT_THAT(values<int32_t>(first.token_type_ids), ElementsAre(0, 0, 1, 1, 0, 0, 1));
  EXPECT_THAT(values<int32_t>(first.position_ids), ElementsAre(0, 1, 2, 3, 0, 1, 2));
  EXPECT_THAT(values<int32_t>(first.cu_seqlens), ElementsAre(0, 4, 7));
  EXPECT_THAT(values<int64_t>(first.labels), ElementsAre(0, 0));

  const Batch second = source.batch(1);
  EXPECT_THAT(values<int32_t>(second.input_ids), ElementsAre(100, 101));
  EXPECT_THAT(values<int32_t>(second.cu_seqlens), ElementsAre(0, 2));
  EXPECT_THAT(values<int64_t>(second.labels), ElementsAre(1));
  // Row 2 of the update, whichever batch it is in.
  EXPECT_THAT(values<int64_t>(second.token_keys), ElementsAre(int64_t{2} << 32, (int64_t{2} << 32) + 1));
}

TEST(BatchSource, OfARangeInTheMiddleOfAnOrder) {
  const DeviceDataset dataset = testing::make_dataset({3, 2, 4, 1});
  const std::vector<int64_t> order{3, 2, 1, 0};
  const BatchSource source(dataset, order, plan_batches(dataset.lengths, order, 2, 4, /*max_rows=*/1, 0));
  EXPECT_THAT(values<int32_t>(source.batch(0).input_ids), ElementsAre(100, 101));
  EXPECT_THAT(values<int32_t>(source.batch(1).input_ids), ElementsAre(0, 1, 2));
}

TEST(BatchSource, LeavesLabelsUndefinedWhereThereAreNone) {
  DeviceDataset dataset = testing::make_dataset({2});
  dataset.labels = at::Tensor();
  const BatchSource source(dataset, {0}, plan_batches(dataset.lengths, {0}, 0, 1, 0, 0));
  EXPECT_FALSE(source.batch(0).labels.defined());
}

TEST(BatchSource, GivesThePositionsOfTheItemsThatHaveAToken) {
  const DeviceDataset dataset = testing::make_dataset_of_items({3, 4, 5, 3});
  EXPECT_EQ(dataset.labels_of(0, 4), (std::pair<int64_t, int64_t>{0, 5}));
  const std::vector<int64_t> order{2, 0, 1, 3};
  const auto plans = plan_batches(dataset.lengths, order, 0, 4, 3, 0);
  const BatchSource source(dataset, order, plans);
  const Batch first = source.batch(0);  // rows 2, 0 and 1 of 5, 3 and 4 tokens
  EXPECT_TRUE(first.positions.equal(at::tensor({0, 1, 2, 5, 8}, at::kLong)));
  EXPECT_TRUE(first.labels.equal(at::tensor({20, 21, 22, 0, 10}, at::kLong)));
  const Batch second = source.batch(1);  // row 3, whose one item has no token
  EXPECT_EQ(second.positions.numel(), 0);
  EXPECT_EQ(second.labels.numel(), 0);
}

}  // namespace
}  // namespace finetune
