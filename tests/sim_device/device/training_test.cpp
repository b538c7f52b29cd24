/// Trains a two-layer encoder on the CPU and on sim: same losses, and no host read between log points.

#include <ATen/autocast_mode.h>

#include "encoder.h"
#include "support.h"

namespace finetune::sim {
namespace {

constexpr int64_t kSteps = 5;

struct Training {
  std::vector<float> losses;
  Counters steps;  ///< launches and reads of the steps alone
};

Training train(at::Device device, double dropout, bool bf16 = false) {
  EncoderShape shape;
  shape.dropout = dropout;
  Encoder model(shape, device);
  model.init(7);
  AdamW optimizer(model.parameters());
  at::Generator data = at::detail::createCPUGenerator(3);
  at::Generator noise = at::globalContext().defaultGenerator(device);
  noise.set_current_seed(11);
  const at::Tensor ids = at::randint(shape.vocabulary, {8, 12}, data, at::kLong).to(device);
  const at::Tensor labels = at::randint(shape.classes, {8}, data, at::kLong).to(device);
  const at::Tensor losses = at::zeros({kSteps}, at::TensorOptions().device(device));
  Training result;
  reset_counters();
  const StrictSection strict(StrictSection::kWaits);
  for (int64_t step = 0; step < kSteps; ++step) {
    at::autocast::set_autocast_enabled(device.type(), bf16);
    at::autocast::set_autocast_dtype(device.type(), at::kBFloat16);
    const at::Tensor loss = model.loss(ids, labels);
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device.type(), false);
    loss.backward();
    losses[step].copy_(loss.detach());
    optimizer.step(1e-2);
  }
  result.steps = counters();
  const AllowHostReads log_point;
  const at::Tensor host = losses.cpu();
  result.losses.assign(host.const_data_ptr<float>(), host.const_data_ptr<float>() + kSteps);
  return result;
}

using SimTraining = SimTest;

TEST_F(SimTraining, SameLossesAsCpu) {
  const Training host = train(at::kCPU, 0.0), device = train(kSim, 0.0);
  EXPECT_EQ(host.losses, device.losses);
  EXPECT_LT(device.losses.back(), device.losses.front());
  EXPECT_GT(device.steps.kernels, 100 * kSteps);
  EXPECT_EQ(device.steps.host_reads, 0);
  EXPECT_EQ(device.steps.host_waits, 0);
  EXPECT_EQ(device.steps.uploads_pageable + device.steps.uploads_pinned + device.steps.cpu_scalars, 0);
  EXPECT_EQ(reports(), "");
}

TEST_F(SimTraining, DropoutRepeatsWithTheDevicesGenerator) {
  const Training first = train(kSim, 0.1);
  EXPECT_EQ(first.losses, train(kSim, 0.1).losses);
  EXPECT_EQ(first.losses, train(at::kCPU, 0.1).losses);
  EXPECT_NE(first.losses, train(kSim, 0.0).losses);
}

TEST_F(SimTraining, AutocastUsesTheListsOfCuda) {
  const Training lower = train(kSim, 0.0, /*bf16=*/true), full = train(kSim, 0.0);
  EXPECT_NE(lower.losses, full.losses);
  for (size_t i = 0; i < lower.losses.size(); ++i) EXPECT_NEAR(lower.losses[i], full.losses[i], 0.05);
  EXPECT_EQ(lower.steps.host_reads, 0);
}

}  // namespace
}  // namespace finetune::sim
