#include "finetune/device/transfer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "finetune/device/available_memory.h"

namespace finetune {
namespace {

// tests/sim_device/product runs the same on a device with streams.

const c10::Device kCpu(c10::kCPU);

TEST(Transfer, OnTheCpuEveryEventIsReached) {
  DeviceEvent event(kCpu);
  EXPECT_TRUE(event.reached());
  event.record();
  event.block();
  event.synchronize();
  EXPECT_TRUE(event.reached());
}

TEST(Transfer, AnUploadIsACopy) {
  std::vector<int64_t> values{3, 1, 2};
  const at::Tensor uploaded = upload(values, kCpu);
  values.assign(3, 0);
  EXPECT_TRUE(uploaded.equal(at::tensor({3, 1, 2}, at::kLong)));
}

TEST(Transfer, AReadIsACopy) {
  const at::Tensor source = at::ones({4}, at::kDouble);
  const AsyncRead read(source);
  source.zero_();
  EXPECT_TRUE(read.arrived());
  EXPECT_TRUE(read.wait().equal(at::ones({4}, at::kDouble)));
}

TEST(Transfer, AReadOfAStridedTensorIsRefused) { EXPECT_THROW(AsyncRead(at::ones({4, 4}).t()), c10::Error); }

TEST(AvailableMemory, OfTheCpuIsKnown) { EXPECT_GT(available_memory(kCpu).value_or(0), 0); }

}  // namespace
}  // namespace finetune
