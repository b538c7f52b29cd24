/// Device memory: counters, budget, pinned memory, and that the host cannot reach it.

#include <ATen/DeviceAccelerator.h>

#include "died_with.h"
#include "support.h"

namespace finetune::sim {
namespace {

using SimMemory = SimTest;

TEST_F(SimMemory, CountersFollowAllocations) {
  at::accelerator::emptyCache();
  at::accelerator::resetPeakStats(0);
  const auto before = memory(0);
  at::Tensor a = at::empty({kMiB / 4}, kOnSim), b = at::empty({1}, kOnSim);
  EXPECT_EQ(memory(0).allocated, before.allocated + kMiB + 512);
  a.reset();
  EXPECT_EQ(memory(0).allocated, before.allocated + 512);
  EXPECT_EQ(memory(0).peak_allocated, before.allocated + kMiB + 512);
  EXPECT_EQ(memory(0).reserved, before.reserved + kMiB + 512);  // the freed part is cached
  at::accelerator::emptyCache();
  EXPECT_EQ(memory(0).reserved, before.reserved + 512);
  EXPECT_EQ(at::accelerator::getDeviceStats(0).allocated_bytes[0].peak, memory(0).peak_allocated);
  EXPECT_EQ(memory(1).allocated, 0);
}

TEST_F(SimMemory, TemporariesOfKernelsAreDeviceMemory) {
  const at::Tensor x = at::randn({256, 1024}, kOnSim);
  at::accelerator::resetPeakStats(0);
  const int64_t before = memory(0).allocated;
  const auto sorted = std::get<0>(x.sort());
  EXPECT_GE(memory(0).peak_allocated,
            before + static_cast<int64_t>(x.nbytes()) * 3);  // values and int64 indices
  EXPECT_EQ(counters().copied_results, 0);
}

TEST_F(SimMemory, NewMemoryIsNan) { EXPECT_TRUE(at::empty({3}, kOnSim).isnan().all().item<bool>()); }

TEST_F(SimMemory, BudgetRaisesTheOutOfMemoryErrorOfCuda) {
  at::accelerator::emptyCache();
  set_budget(0, memory(0).reserved + 8 * kMiB);
  at::Tensor kept = at::empty({kMiB}, kOnSim);
  bool caught = false;
  try {
    at::empty({2 * kMiB}, kOnSim);
  } catch (const c10::OutOfMemoryError& e) {
    caught = true;
    EXPECT_SAYS(e.what_without_backtrace(), "sim:0 out of memory: tried to allocate 8388608 bytes");
  }
  EXPECT_TRUE(caught);
  EXPECT_FAILS(at::cat({kept, kept}), "out of memory in aten::cat");
  kept.reset();
  at::empty({2 * kMiB}, kOnSim);  // drops the cached 4 MiB, then fits
  EXPECT_EQ(at::accelerator::getMemoryInfo(0).first, 0);
}

TEST_F(SimMemory, HostAccessDies) {
  const at::Tensor x = at::ones({4}, kOnSim), y = at::ones({4}, at::TensorOptions().device(kSim1));
  EXPECT_EQ(died_with([&] { std::printf("%f", x.data_ptr<float>()[1]); }), "signal 11");
  EXPECT_SAYS(died_with([&] { report_stray_accesses(), y.data_ptr<float>()[0] = 1; }),
              "touched the memory of sim:1");
  EXPECT_SAYS(died_with([&] { report_stray_accesses(), at::from_blob(x.data_ptr(), {4}).sum(); }),
              "memory of sim:0");
}

TEST_F(SimMemory, PinnedMemory) {
  const at::Tensor pageable = at::ones({4}), pinned = pageable.pin_memory(),
                   made = at::empty({4}, at::TensorOptions().pinned_memory(true));
  EXPECT_FALSE(pageable.is_pinned());
  EXPECT_TRUE(pinned.is_pinned());
  EXPECT_TRUE(made.is_pinned());
  EXPECT_TRUE(pinned.slice(0, 1).is_pinned());
  EXPECT_EQ(pinned_memory().allocated, 1024);
  reset_counters();
  pageable.to(kSim), pinned.to(kSim), pinned.to(kSim, /*non_blocking=*/true), pageable.to(kSim, true);
  const auto n = counters();
  EXPECT_EQ(n.uploads_pageable, 2);
  EXPECT_EQ(n.uploads_pinned, 2);
  EXPECT_EQ(n.host_waits, 3);
  EXPECT_EQ(n.upload_bytes, 64);
  EXPECT_FAILS(at::empty({4}, kOnSim.pinned_memory(true)), "only CPU tensors can be pinned");
}

TEST_F(SimMemory, UseAfterFree) {
  at::Tensor x = at::ones({4}, kOnSim);
  const at::Tensor alias = at::from_blob(x.data_ptr(), {4}, kOnSim);
  EXPECT_EQ((alias + 1).sum().item<float>(), 8);
  x.reset();
  EXPECT_FAILS(alias + 1, "use after free: aten::add.Tensor on memory of sim:0 that was freed");
}

TEST_F(SimMemory, StorageCanBeResized) {
  at::Tensor x = at::ones({4}, kOnSim);
  at::detail::getPrivateUse1Hooks().resizePrivateUse1Bytes(x.storage(), 32);
  EXPECT_EQ(x.storage().nbytes(), 32u);
  EXPECT_EQ(x.sum().item<float>(), 4);
  const int64_t before = memory(0).allocated;
  at::detail::getPrivateUse1Hooks().resizePrivateUse1Bytes(x.storage(), 0);
  EXPECT_EQ(memory(0).allocated, before - 512);
}

}  // namespace
}  // namespace finetune::sim
