#include "doctor/watch.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace finetune::doctor {
namespace {

TEST(OperatorWatch, CountsWorkAndNeitherViewsNorAllocationsNorCallers) {
  const auto a = at::ones({8, 8});
  const OperatorWatch watch;
  const auto b = at::empty({8, 8});
  const auto view = a.t().narrow(0, 0, 4).view({4, 8});
  EXPECT_EQ(watch.launches(), 0);
  b.add_(a);
  EXPECT_EQ(watch.launches(), 1);
  at::linear(a, b);  // calls matmul, which calls mm: one product
  EXPECT_EQ(watch.launches(), 2);
  EXPECT_EQ(view.numel(), 32);
}

TEST(OperatorWatch, ValuesOfTheCpuAreNoReads) {
  const OperatorWatch watch;
  EXPECT_EQ(at::ones({}).item<float>(), 1);
  EXPECT_EQ(watch.host_reads(), 0);
}

TEST(MemoryWatch, SeesThePeakOfWhatIsHeldAtOnce) {
  constexpr int64_t kBytes = 4 << 20;
  const MemoryWatch watch(c10::Device(c10::kCPU));
  for (int i = 0; i < 3; ++i) at::empty({kBytes}, at::kByte);
  const auto one = at::empty({kBytes}, at::kByte), two = at::empty({kBytes}, at::kByte);
  EXPECT_GE(watch.peak(), 2 * kBytes);
  EXPECT_LT(watch.peak(), 2 * kBytes + 4096);
}

}  // namespace
}  // namespace finetune::doctor
