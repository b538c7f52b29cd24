#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/operators.h"
#include "kernels/support.h"

#if defined(FINETUNE_TEST_ON_GPU)
namespace finetune::kernels {
namespace tested = operators;  // the dispatcher finds the GPU's kernels
}
#else
#include "emulation.h"
#include "kernels/cuda/kernels.h"
namespace finetune::kernels {
namespace tested = cuda;
}
#endif

/// These tests are compiled twice: with the CUDA operators emulated on the host, and, for a machine with a
/// GPU, with the real ones.

namespace finetune::kernels::testing {

using Tensors = std::vector<at::Tensor>;

/// The tensor where the kernels under test work.
inline at::Tensor on_device(const at::Tensor& tensor) {
#if defined(FINETUNE_TEST_ON_GPU)
  return tensor.defined() ? tensor.to(at::kCUDA) : tensor;
#else
  return tensor.clone();
#endif
}

/// How far a result may be from the float32 kernel's, in units of its largest value: a few roundings.
inline double tolerance_of(at::ScalarType type) {
  switch (type) {
    case at::kBFloat16:
      return 1.2e-2;
    case at::kHalf:
      return 2e-3;
    default:
      return 5e-6;
  }
}

/// What `f` computes, twice with the same bits: emulated in two opposite orders of threads and blocks, or by
/// the GPU. On the CPU.
inline Tensors in_both_orders(const std::function<Tensors()>& f) {
  const auto run = [&](bool forwards) {
#if defined(FINETUNE_TEST_ON_GPU)
    static_cast<void>(forwards);
#else
    const cuda::EmulatedOrder scope(forwards ? cuda::Order::kForwards : cuda::Order::kBackwards);
#endif
    Tensors results = f();
    for (at::Tensor& result : results) result = result.to(at::kCPU);
    return results;
  };
  Tensors results = run(true);
  const Tensors others = run(false);
  EXPECT_EQ(results.size(), others.size());
  for (size_t i = 0; i < results.size(); ++i) {
    EXPECT_TRUE(same(results[i], others[i])) << "result " << i << " depends on the order of threads";
  }
  return results;
}

inline void expect_all_close(const Tensors& actual, const Tensors& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    expect_close(actual[i], expected[i].to(at::kDouble), tolerance, ("result " + std::to_string(i)).c_str());
  }
}

/// Tests of a kernel in the three precisions of activations. The expected values are the CPU kernel's in
/// float32, from the very values that the low precision holds.
class KernelTest : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  at::ScalarType type() const { return GetParam(); }
  double tolerance() const { return tolerance_of(type()); }
  at::Tensor activations(at::IntArrayRef sizes, uint64_t seed) const {
    return random_tensor(sizes, seed).to(type());
  }
  static at::Tensor exact(const at::Tensor& tensor) { return tensor.to(at::kFloat); }
};

inline std::string precision_name(const ::testing::TestParamInfo<at::ScalarType>& info) {
  return c10::toString(info.param);
}

#define FINETUNE_IN_ALL_PRECISIONS(suite)                                                            \
  INSTANTIATE_TEST_SUITE_P(Emulated, suite, ::testing::Values(at::kFloat, at::kBFloat16, at::kHalf), \
                           precision_name)

}  // namespace finetune::kernels::testing
