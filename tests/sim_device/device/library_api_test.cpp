/// What LibTorch's device-neutral entry points make of sim.

#include <ATen/DeviceAccelerator.h>
#include <ATen/autocast_mode.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <torch/csrc/api/include/torch/nn/modules/linear.h>

#include "support.h"

namespace finetune::sim {
namespace {

using SimLibraryApi = SimTest;

at::Generator generator(at::Device device) { return at::globalContext().defaultGenerator(device); }

TEST_F(SimLibraryApi, Names) {
  EXPECT_EQ(at::Device("sim:1"), kSim1);
  EXPECT_EQ(kSim1.str(), "sim:1");
  EXPECT_EQ(at::empty({1}, at::TensorOptions().device(at::Device("sim"))).device(), kSim);
  EXPECT_FAILS(at::empty({1}, at::TensorOptions().device(at::Device("sim:7"))), "there is no device sim:7");
}

TEST_F(SimLibraryApi, Accelerator) {
  EXPECT_EQ(at::accelerator::getAccelerator(), at::kPrivateUse1);
  EXPECT_TRUE(at::accelerator::isAccelerator(at::kPrivateUse1));
  EXPECT_EQ(at::accelerator::deviceCount(), 2);
  at::accelerator::setDeviceIndex(1);
  EXPECT_EQ(at::empty({1}, at::TensorOptions().device(at::kPrivateUse1)).device(), kSim1);
  EXPECT_EQ(at::accelerator::exchangeDevice(0), 1);
  EXPECT_EQ(at::accelerator::getDeviceIndex(), 0);
  EXPECT_EQ(at::accelerator::getCurrentStream(0).id(), 0);
  at::accelerator::synchronizeDevice(0);
  EXPECT_TRUE(at::accelerator::getMemoryInfo(0).second > 0);
  const c10::DeviceGuard guard(kSim1);
  EXPECT_EQ(at::accelerator::getDeviceIndex(), 1);
}

TEST_F(SimLibraryApi, Autocast) {
  EXPECT_TRUE(at::autocast::is_autocast_available(at::kPrivateUse1));
  EXPECT_EQ(at::autocast::get_autocast_dtype(at::kPrivateUse1), at::kHalf);  // set it, as on CUDA
  at::autocast::set_autocast_dtype(at::kPrivateUse1, at::kBFloat16);
  at::autocast::set_autocast_enabled(at::kPrivateUse1, true);
  const at::Tensor x = at::ones({4, 4}, kOnSim), y = at::linear(x, x);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_EQ(at::layer_norm(y, {4}).scalar_type(), at::kFloat);  // bf16 under CPU autocast
  EXPECT_EQ(at::softmax(y, -1).scalar_type(), at::kFloat);
  EXPECT_EQ(at::linear(at::ones({2, 2}), at::ones({2, 2})).scalar_type(), at::kFloat);
  at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(at::kPrivateUse1, false);
}

TEST_F(SimLibraryApi, Generators) {
  at::manual_seed(5);
  generator(kSim).set_current_seed(1);
  const at::Tensor state = generator(kSim).get_state(), a = at::randn({5}, kOnSim),
                   b = at::randn({5}, kOnSim);
  generator(kSim).set_state(state);
  EXPECT_TRUE(at::randn({5}, kOnSim).equal(a));
  EXPECT_FALSE(a.equal(b));
  EXPECT_TRUE(generator(kSim1) != generator(kSim));
  EXPECT_EQ(generator(kSim).device(), kSim);
  EXPECT_EQ(state.numel(), 5056);
  const at::Tensor host = at::randn({5});
  at::manual_seed(5);
  EXPECT_TRUE(at::randn({5}).equal(host));  // device draws do not disturb the CPU's sequence
}

TEST_F(SimLibraryApi, ManualSeedReachesTheDevice) {
  at::manual_seed(5);
  const at::Tensor a = at::randn({5}, kOnSim);
  at::manual_seed(5);
  EXPECT_TRUE(at::randn({5}, kOnSim).equal(a));
}

TEST_F(SimLibraryApi, InferenceMode) {
  const c10::InferenceMode mode;
  const at::Tensor x = at::ones({4, 4}, kOnSim);
  EXPECT_EQ(at::linear(x, x).sum().item<float>(), 64);
}

// LibTorch 2.11 lets set_data mix CPU with CUDA, but not with PrivateUse1.
TEST_F(SimLibraryApi, AModuleCannotMoveToTheDevice) {
  torch::nn::Linear linear(4, 4);
  EXPECT_FAILS(linear->to(kSim), "incompatible tensor type");
  at::Tensor w = at::ones({2}, kOnSim).requires_grad_();
  w.set_data(at::zeros({3}, kOnSim));
  EXPECT_EQ(w.numel(), 3);
}

TEST_F(SimLibraryApi, CopiesOnWriteAreNotSupported) {
  EXPECT_FAILS(at::_lazy_clone(at::ones({4}, kOnSim)), "storage != nullptr");
}

TEST_F(SimLibraryApi, KernelsThatOnlyAGpuHas) {
  const at::Tensor q = at::ones({1, 1, 4, 8}, kOnSim);
  EXPECT_FAILS(at::_scaled_dot_product_flash_attention(q, q, q), "has no CPU kernel");
}

TEST_F(SimLibraryApi, FusedAttentionChoiceIsMath) {
  const at::Tensor q = at::ones({1, 1, 4, 8}, kOnSim);
  reset_counters();
  at::scaled_dot_product_attention(q, q, q);
  EXPECT_EQ(counters().launches.at("aten::bmm"), 2);
}

}  // namespace
}  // namespace finetune::sim
