#include "finetune/batching/static_batch.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <numeric>

namespace finetune {
namespace {

constexpr int64_t kIgnored = -100;

/// Rows of the lengths given; ids, types and keys tell tokens apart.
Batch rows_of(const std::vector<int64_t>& lengths) {
  Batch batch;
  batch.num_rows = static_cast<int64_t>(lengths.size());
  batch.num_tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  batch.max_length = *std::max_element(lengths.begin(), lengths.end());
  std::vector<int32_t> offsets{0};
  for (const int64_t length : lengths) offsets.push_back(offsets.back() + static_cast<int32_t>(length));
  batch.cu_seqlens = at::tensor(offsets, at::kInt);
  batch.input_ids = at::arange(1, batch.num_tokens + 1, at::kInt);
  batch.token_type_ids = at::ones({batch.num_tokens}, at::kInt);
  batch.position_ids = at::arange(batch.num_tokens, at::kInt);
  batch.token_keys = at::arange(batch.num_tokens, at::kLong);
  batch.labels = at::arange(batch.num_rows, at::kLong);
  return batch;
}

std::vector<int64_t> lengths_of(const Batch& batch) {
  const at::Tensor lengths = batch.cu_seqlens.diff().to(at::kLong).contiguous();
  return {lengths.const_data_ptr<int64_t>(), lengths.const_data_ptr<int64_t>() + lengths.numel()};
}

TEST(StaticBatch, BatchesOfSimilarSizeShareAShape) {
  EXPECT_EQ(bucket_of(rows_of({30, 40}), 8), bucket_of(rows_of({35, 42}), 8));
  EXPECT_NE(bucket_of(rows_of({30, 40}), 8), bucket_of(rows_of({30, 140}), 8));
}

TEST(StaticBatch, AShapeIsAtMostAnEighthLargerThanALargeBatch) {
  for (int64_t tokens = 513; tokens < 9000; tokens += 7) {
    const BatchShape shape = bucket_of(rows_of({tokens}), 1);
    EXPECT_GT(shape.num_tokens, tokens);
    EXPECT_LE(static_cast<double>(shape.num_tokens), 1.13 * static_cast<double>(tokens));
  }
}

TEST(StaticBatch, KeepsItsTensorsAndFillsThemUp) {
  const Batch first = rows_of({3, 5, 2}), second = rows_of({7, 1});
  const BatchShape shape = bucket_of(first, 4);
  ASSERT_EQ(shape, bucket_of(second, 4));
  StaticBatch fixed(shape, kIgnored, c10::Device(c10::kCPU));
  const void* address = fixed.batch().input_ids.const_data_ptr();
  for (const Batch* batch : {&first, &second}) {
    fixed.load(*batch);
    const Batch& filled = fixed.batch();
    EXPECT_EQ(filled.input_ids.const_data_ptr(), address);
    EXPECT_TRUE(at::equal(filled.input_ids.narrow(0, 0, batch->num_tokens), batch->input_ids));
    EXPECT_TRUE(at::equal(filled.token_keys.narrow(0, 0, batch->num_tokens), batch->token_keys));
    EXPECT_TRUE(at::equal(filled.labels.narrow(0, 0, batch->num_rows), batch->labels));
    EXPECT_TRUE((filled.labels.narrow(0, batch->num_rows, shape.num_rows - batch->num_rows) == kIgnored)
                    .all()
                    .item<bool>());
    const auto lengths = lengths_of(filled);
    EXPECT_EQ(std::accumulate(lengths.begin(), lengths.end(), int64_t{0}), shape.num_tokens);
    EXPECT_LE(*std::max_element(lengths.begin(), lengths.end()), shape.max_length);
    EXPECT_GE(*std::min_element(lengths.begin(), lengths.end()), 0);
    // Every row, empty ones too, begins at a token.
    EXPECT_LT(filled.cu_seqlens[shape.num_rows - 1].item<int>(), shape.num_tokens);
  }
}

TEST(StaticBatch, PositionsThatAreFreeAreIgnored) {
  Batch batch = rows_of({6, 4});
  batch.positions = at::tensor({1, 3, 7}, at::kLong);
  batch.labels = at::tensor({2, 0, 1}, at::kLong);
  const BatchShape shape = bucket_of(batch, 2);
  StaticBatch fixed(shape, kIgnored, c10::Device(c10::kCPU));
  fixed.load(batch);
  ASSERT_EQ(fixed.batch().labels.size(0), shape.num_positions);
  EXPECT_TRUE(at::equal(fixed.batch().labels.narrow(0, 0, 3), batch.labels));
  EXPECT_EQ((fixed.batch().labels == kIgnored).sum().item<int64_t>(), shape.num_positions - 3);
}

}  // namespace
}  // namespace finetune
