/// Order between streams: what a missing wait, a missing record_stream or an impatient host do is reported.
/// Uses LibTorch's device-neutral stream API only.

#include <cmath>

#include "support.h"

namespace finetune::sim {
namespace {

using SimStreams = SimTest;

at::Tensor prefetch(const at::Tensor& host, const c10::Stream& side) {
  const c10::StreamGuard on(side);
  return host.to(kSim, /*non_blocking=*/true);
}

at::Tensor pinned_batch() { return at::ones({256}).pin_memory(); }

TEST_F(SimStreams, PrefetchWithAWaitIsClean) {
  const auto side = side_stream();
  const at::Tensor host = pinned_batch();
  at::Tensor batch = prefetch(host, side);
  main_stream().wait(recorded(side));
  const at::Tensor y = batch * 2;
  api().recordDataPtrOnStream(batch.storage().data_ptr(), main_stream());
  batch.reset();
  EXPECT_EQ(y.sum().item<float>(), 512);
  EXPECT_TRUE(reports().empty());
}

TEST_F(SimStreams, MissingWaitIsReported) {
  const auto side = side_stream();
  const at::Tensor host = pinned_batch(), batch = prefetch(host, side);
  (void)(batch * 2);
  EXPECT_SAYS(reports(),
              "by copy to device, then read on stream 0 of sim:0 by aten::mul.Tensor without a wait");
  api().synchronizeStream(side);
}

TEST_F(SimStreams, MissingWaitCanThrowAtTheLaunch) {
  const auto side = side_stream();
  const at::Tensor host = pinned_batch(), batch = prefetch(host, side);
  throw_on_violation(true);
  EXPECT_FAILS(batch * 2, "without a wait");
  throw_on_violation(false);
  api().synchronizeStream(side);
  (void)(batch * 2);
  reports();
}

TEST_F(SimStreams, MemoryFromAnotherStreamNeedsAWaitToo) {
  const at::Tensor kept = at::zeros({4}, kOnSim), target = at::empty({4}, kOnSim);
  const auto side = side_stream();
  const c10::StreamGuard on(side);
  target.fill_(1);
  EXPECT_SAYS(reports(), "by its allocation, then written on stream");
  api().synchronizeStream(side);
}

TEST_F(SimStreams, FreeWithoutRecordStreamIsReported) {
  const auto side = side_stream();
  at::Tensor x = at::ones({64}, kOnSim), y;
  side.wait(recorded(main_stream()));
  {
    const c10::StreamGuard on(side);
    y = x * 3;
  }
  x.reset();  // the main stream may reuse it while the side stream still reads
  EXPECT_SAYS(reports(), "early free of storage");
  x = at::ones({64}, kOnSim);
  side.wait(recorded(main_stream()));
  {
    const c10::StreamGuard on(side);
    y = x * 3;
  }
  x.record_stream(side);
  x.reset();
  EXPECT_TRUE(reports().empty());
}

TEST_F(SimStreams, PinnedSourceOverwrittenInFlightIsReported) {
  const auto side = side_stream();
  at::Tensor host = pinned_batch();
  const at::Tensor batch = prefetch(host, side);
  host.fill_(5);  // the host reuses its staging buffer at once
  api().synchronizeStream(side);
  EXPECT_SAYS(reports(), "pinned source of 1024 bytes overwritten by the host");
  const at::Tensor next = prefetch(host, side);
  const auto done = recorded(side);
  done.synchronize();
  host.fill_(6);
  EXPECT_TRUE(reports().empty());
}

TEST_F(SimStreams, AsyncDownloadArrivesWithTheWait) {
  reset_counters();
  const at::Tensor x = at::full({8}, 2.0, kOnSim), host = x.to(at::kCPU, /*non_blocking=*/true);
  EXPECT_TRUE(host.is_pinned());
  EXPECT_TRUE(std::isnan(host[0].item<float>()));  // too early
  const auto done = recorded(main_stream());
  int polls = 1;
  while (!done.query()) ++polls;
  EXPECT_EQ(host[0].item<float>(), 2);
  EXPECT_EQ(polls, 3);
  EXPECT_EQ(counters().async_reads, 1);
  EXPECT_EQ(counters().host_reads, 0);
}

TEST_F(SimStreams, SlicesOfOneStorageAreToldApart) {
  const auto side = side_stream();
  const at::Tensor flat = at::zeros({2, 512}, kOnSim);
  side.wait(recorded(main_stream()));
  {
    const c10::StreamGuard on(side);
    flat[0].fill_(1);
  }
  flat[1].fill_(2);
  EXPECT_TRUE(reports().empty());
  flat[0].add_(1);
  EXPECT_SAYS(reports(), "race");
}

TEST_F(SimStreams, AutogradKeepsForwardStreamsAndSyncs) {
  at::Tensor w = at::randn({16, 16}, kOnSim).requires_grad_(), x = at::randn({4, 16}, kOnSim), loss;
  const auto side = side_stream();
  side.wait(recorded(main_stream()));
  {
    const c10::StreamGuard on(side);
    loss = at::matmul(x, w).pow(2).sum();
  }
  loss.backward();       // runs on the side stream, from a thread of the engine
  (void)(w.grad() * 2);  // on the main stream: the engine has made it wait
  EXPECT_TRUE(reports().empty());
  w.record_stream(side), x.record_stream(side), w.mutable_grad().record_stream(main_stream());
}

TEST_F(SimStreams, CopiesBetweenDevicesOrderTheirStreams) {
  const at::Tensor x = at::ones({32}, kOnSim), y = x.to(kSim1) * 2, z = y.to(kSim) + x;
  EXPECT_EQ(z.sum().item<float>(), 96);
  EXPECT_TRUE(reports().empty());
}

}  // namespace
}  // namespace finetune::sim
