#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <tuple>
#include <vector>

#include "finetune/kernels/ops.h"
#include "support.h"

namespace finetune::kernels {
namespace {

using testing::on_device;
using Gathered = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

struct Arena {
  at::Tensor tokens;
  at::Tensor row_offsets;
  at::Tensor second_segments;
  std::vector<int64_t> lengths;
};

/// Rows of the given lengths, every token different; the second segment starts after a third of the row, or
/// never.
Arena make_arena(const std::vector<int64_t>& lengths) {
  std::vector<int64_t> offsets{0};
  std::vector<int32_t> segments;
  for (size_t r = 0; r < lengths.size(); ++r) {
    offsets.push_back(offsets.back() + lengths[r]);
    segments.push_back(static_cast<int32_t>(r % 2 == 0 ? lengths[r] / 3 : lengths[r]));
  }
  return {at::arange(1000, 1000 + offsets.back(), at::kInt), at::tensor(offsets, at::kLong),
          at::tensor(segments, at::kInt), lengths};
}

at::Tensor cumulative_lengths(const Arena& arena, const std::vector<int64_t>& rows) {
  std::vector<int32_t> sums{0};
  for (const int64_t row : rows) {
    sums.push_back(sums.back() + static_cast<int32_t>(arena.lengths[static_cast<size_t>(row)]));
  }
  return at::tensor(sums, at::kInt);
}

Gathered emulate(const Arena& arena, const at::Tensor& rows, const at::Tensor& cu_seqlens, int64_t num_tokens,
                 int64_t first_row) {
  const auto results = testing::in_both_orders([&] {
    const auto [ids, types, positions, keys] = tested::gather_batch(
        on_device(arena.tokens), on_device(arena.row_offsets), on_device(arena.second_segments),
        on_device(rows), on_device(cu_seqlens), num_tokens, first_row);
    return testing::Tensors{ids, types, positions, keys};
  });
  return {results[0], results[1], results[2], results[3]};
}

void expect_same(const Arena& arena, const std::vector<int64_t>& row_list, int64_t first_row) {
  const at::Tensor rows = at::tensor(row_list, at::kLong);
  const at::Tensor cu_seqlens = cumulative_lengths(arena, row_list);
  const int64_t num_tokens = cu_seqlens.const_data_ptr<int32_t>()[row_list.size()];
  const auto [ids, types, positions, keys] = emulate(arena, rows, cu_seqlens, num_tokens, first_row);
  const auto [cpu_ids, cpu_types, cpu_positions, cpu_keys] = gather_batch(
      arena.tokens, arena.row_offsets, arena.second_segments, rows, cu_seqlens, num_tokens, first_row);
  EXPECT_TRUE(at::equal(ids, cpu_ids));
  EXPECT_TRUE(at::equal(types, cpu_types));
  EXPECT_TRUE(at::equal(positions, cpu_positions));
  EXPECT_TRUE(at::equal(keys, cpu_keys));
}

TEST(CudaGatherBatch, EqualsTheCpuOperatorForRowsInAnyOrder) {
  expect_same(make_arena({7, 3, 12, 1, 9}), {4, 0, 2, 1, 3}, 0);
}

TEST(CudaGatherBatch, EqualsTheCpuOperatorAcrossSeveralBlocks) {
  expect_same(make_arena({200, 255, 256, 257, 511, 2}), {3, 5, 0, 2, 4, 1}, 17);
}

TEST(CudaGatherBatch, EmptyRowsOwnNoToken) {
  expect_same(make_arena({0, 5, 0, 0, 4, 0}), {0, 1, 2, 3, 4, 5}, 3);
}

TEST(CudaGatherBatch, KeysHoldTheRowInTheUpdateAndThePosition) {
  const Arena arena = make_arena({2, 3});
  const at::Tensor rows = at::tensor({1, 0}, at::kLong);
  const auto [ids, types, positions, keys] = emulate(arena, rows, cumulative_lengths(arena, {1, 0}), 5, 40);
  const at::Tensor expected = at::tensor({int64_t{40} << 32, int64_t{40} << 32 | 1, int64_t{40} << 32 | 2,
                                          int64_t{41} << 32, int64_t{41} << 32 | 1},
                                         at::kLong);
  EXPECT_TRUE(at::equal(keys, expected));
  EXPECT_TRUE(at::equal(ids, at::tensor({1002, 1003, 1004, 1000, 1001}, at::kInt)));
  EXPECT_TRUE(at::equal(types, at::tensor({0, 0, 0, 1, 1}, at::kInt)));
}

}  // namespace
}  // namespace finetune::kernels
