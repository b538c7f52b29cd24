/// Custom operators on sim: with a CPU kernel only, and with a kernel for PrivateUse1 written by hand.

#include <torch/library.h>

#include "kernel.h"
#include "support.h"

namespace finetune::sim {
namespace {

/// Rows `rows` of a ragged int32 arena, padded to `length`.
at::Tensor gather_rows(const at::Tensor& arena, const at::Tensor& offsets, const at::Tensor& rows,
                       int64_t length, int64_t pad) {
  at::Tensor batch = at::full({rows.size(0), length}, pad, arena.options());
  const auto from = arena.accessor<int32_t, 1>();
  const auto offset = offsets.accessor<int64_t, 1>(), row = rows.accessor<int64_t, 1>();
  auto to = batch.accessor<int32_t, 2>();
  for (int64_t b = 0; b < rows.size(0); ++b) {
    const int64_t begin = offset[row[b]], count = std::min(offset[row[b] + 1] - begin, length);
    for (int64_t i = 0; i < count; ++i) to[b][i] = from[begin + i];
  }
  return batch;
}

void scale_cpu(at::Tensor& x, double by) { x.mul_(by); }

void scale_sim(at::Tensor& x, double by) {
  Kernel kernel("simtest::scale_", x.device());
  const at::Tensor memory = kernel.map(x, Kernel::kWrite);
  kernel.launch();
  memory.mul_(by);
  kernel.finish();
}

int64_t longest(const at::Tensor& offsets) { return offsets.diff().max().item<int64_t>(); }

TORCH_LIBRARY(simtest, m) {
  m.def("gather_rows(Tensor arena, Tensor offsets, Tensor rows, int length, int pad) -> Tensor");
  m.def("scale_(Tensor(a!) x, float by) -> ()");
  m.def("longest(Tensor offsets) -> int");
}
TORCH_LIBRARY_IMPL(simtest, CPU, m) {
  m.impl("gather_rows", &gather_rows);
  m.impl("scale_", &scale_cpu);
  m.impl("longest", &longest);
}
TORCH_LIBRARY_IMPL(simtest, PrivateUse1, m) { m.impl("scale_", &scale_sim); }

template <class Signature>
auto op(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

using SimCustomOp = SimTest;

TEST_F(SimCustomOp, ACpuKernelIsEnough) {
  const auto gather = op<decltype(gather_rows)>("simtest::gather_rows");
  const at::Tensor arena = at::arange(10, at::kInt), offsets = at::tensor({0, 3, 4, 10}, at::kLong);
  const at::Tensor rows = at::tensor({2, 0}, at::kLong);
  reset_counters();
  const at::Tensor batch = gather.call(arena.to(kSim), offsets.to(kSim), rows.to(kSim), 4, -1);
  EXPECT_EQ(batch.device(), kSim);
  EXPECT_EQ(counters().launches.at("simtest::gather_rows"), 1);
  EXPECT_EQ(counters().copied_results, 0);
  EXPECT_TRUE(batch.cpu().equal(at::tensor({4, 5, 6, 7, 0, 1, 2, -1}, at::kInt).view({2, 4})));
  EXPECT_FAILS(gather.call(arena.to(kSim), offsets, rows.to(kSim), 4, -1),
               "simtest::gather_rows runs on sim:0 but got a CPULongType[4]");
  EXPECT_EQ(counters().foreign_operands, 1);
}

TEST_F(SimCustomOp, AKernelByHand) {
  at::Tensor x = at::ones({4}, kOnSim);
  op<void(at::Tensor&, double)>("simtest::scale_").call(x, 3.0);
  EXPECT_EQ(x.sum().item<float>(), 12);
}

TEST_F(SimCustomOp, AnOperatorThatReturnsANumberIsAHostRead) {
  const at::Tensor offsets = at::tensor({0, 3, 4, 10}, at::kLong).to(kSim);
  const auto longest_row = op<int64_t(const at::Tensor&)>("simtest::longest");
  EXPECT_EQ(longest_row.call(offsets), 6);
  EXPECT_EQ(counters().reads.at("simtest::longest"), 1);
  const StrictSection strict;
  EXPECT_FAILS(longest_row.call(offsets), "the host waits for the device in simtest::longest");
}

}  // namespace
}  // namespace finetune::sim
