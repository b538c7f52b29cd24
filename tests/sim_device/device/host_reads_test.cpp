/// What makes the host wait is counted, named and, in a strict section, forbidden; so is a tensor on another
/// device.

#include <iostream>
#include <thread>

#include "support.h"

namespace finetune::sim {
namespace {

using SimHostReads = SimTest;

TEST_F(SimHostReads, StrictSectionsNameTheRead) {
  const at::Tensor x = at::ones({4}, kOnSim), mask = x > 0, counts = at::ones({4}, kOnSim.dtype(at::kLong));
  const at::Tensor host = at::ones({4});
  const StrictSection strict;
  EXPECT_FAILS(x[0].item(),
               "the host waits for the device in aten::_local_scalar_dense, inside strict section");
  EXPECT_FAILS(x.cpu(), "a copy to the host");
  EXPECT_FAILS(host.copy_(x), "a copy to the host");
  EXPECT_FAILS(x.nonzero(), "aten::nonzero");
  EXPECT_FAILS(x.index({mask}), "aten::index.Tensor");
  EXPECT_FAILS(x.index_put_({mask}, x), "aten::_index_put_impl_");
  EXPECT_FAILS(x.masked_select(mask), "aten::masked_select");
  EXPECT_FAILS(x.repeat_interleave(counts, 0), "aten::repeat_interleave");
  EXPECT_FAILS(at::_unique2(x), "aten::_unique2");
  EXPECT_FAILS(x.equal(x), "aten::equal");
  EXPECT_FAILS(at::allclose(x, x), "inside strict section");
  EXPECT_FAILS(x.is_nonzero(), "Boolean value of Tensor with more than one value");
  EXPECT_FAILS(std::cout << x, "a copy to the host");
  x.index({counts}), x.masked_fill(mask, 0), x + 1, at::where(mask, x, x);  // these do not wait
  host.to(kSim);                                                            // nor is an upload a read
  const AllowHostReads log_point;
  EXPECT_EQ(x.sum().item<float>(), 4);
}

TEST_F(SimHostReads, StrictAboutEveryWait) {
  const at::Tensor pageable = at::ones({4}), pinned = pageable.pin_memory();
  const StrictSection strict(StrictSection::kWaits);
  EXPECT_FAILS(pageable.to(kSim), "a blocking copy to the device");
  EXPECT_FAILS(pinned.to(kSim), "a blocking copy to the device");
  EXPECT_FAILS(pageable.to(kSim, true), "a blocking copy to the device");
  EXPECT_TRUE(thrown_by([&] { pinned.to(kSim, true); }).empty());
  EXPECT_FAILS(at::tensor({1.0f}, kOnSim), "a blocking copy to the device");
  EXPECT_TRUE(thrown_by([&] { at::full({}, 1.0f, kOnSim); }).empty());
}

TEST_F(SimHostReads, StrictHoldsOnOtherThreads) {
  const at::Tensor x = at::ones({1}, kOnSim);
  const StrictSection strict;
  const AllowHostReads only_here;
  std::string error;
  std::thread([&] { error = thrown_by([&] { x.item(); }); }).join();
  EXPECT_SAYS(error, "_local_scalar_dense");
}

TEST_F(SimHostReads, StrictHoldsInsideBackward) {
  const at::Tensor w = at::ones({2}, kOnSim).requires_grad_(), y = w * 2;
  y.register_hook([](const at::Tensor& grad) {
    grad.sum().item<float>();
    return grad;
  });
  const StrictSection strict;
  EXPECT_FAILS(y.sum().backward(), "_local_scalar_dense");
}

TEST_F(SimHostReads, OperandsMustShareADevice) {
  const at::Tensor x = at::ones({4}, kOnSim), far = at::ones({4}, at::TensorOptions().device(kSim1)),
                   host = at::ones({4});
  EXPECT_FAILS(x + host, "aten::add.Tensor runs on sim:0 but got a CPUFloatType[4] on cpu");
  EXPECT_FAILS(at::mm(x.view({2, 2}), host.view({2, 2})), "on cpu");
  EXPECT_FAILS(x + far, "aten::add.Tensor runs on sim:0 but got a simFloatType[4] on sim:1");
  EXPECT_FAILS(at::cat({x, host}), "on cpu");
  EXPECT_FAILS(x.index({at::zeros({1}, at::kLong)}), "on cpu");
  EXPECT_FAILS(at::_foreach_add_(std::vector<at::Tensor>{x, host}, 1), "on cpu");
  reset_counters();
  x + at::scalar_tensor(2.0), x * 2;
  EXPECT_EQ(counters().cpu_scalars, 1);
  EXPECT_EQ(counters().host_reads, 0);
}

TEST_F(SimHostReads, KernelsAreCountedByName) {
  const at::Tensor x = at::ones({4, 4}, kOnSim);
  reset_counters();
  at::gelu(x.t().slice(0, 0, 2).unsqueeze(0));
  const auto n = counters();
  EXPECT_EQ(n.kernels, 1);
  EXPECT_EQ(n.launches.at("aten::gelu"), 1);
}

}  // namespace
}  // namespace finetune::sim
