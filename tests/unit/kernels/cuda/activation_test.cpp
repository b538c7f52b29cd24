#include <gtest/gtest.h>

#include "support.h"

namespace finetune::kernels::testing {
namespace {

/// Odd sizes, and more columns than one block and more rows than one chunk of sums takes.
const std::vector<std::pair<int64_t, int64_t>> kSizes{{1, 1}, {3, 7}, {5, 264}, {37, 24}, {18, 1030}};

using CudaActivation = KernelTest;
FINETUNE_IN_ALL_PRECISIONS(CudaActivation);

TEST_P(CudaActivation, EqualsTheCpuKernelForEveryFunction) {
  for (int64_t function = 0; function <= static_cast<int64_t>(Activation::kTanh); ++function) {
    const at::Tensor x = activations({19, 21}, 1) * 3.0;
    const at::Tensor grad = activations({19, 21}, 2);
    const at::Tensor bias = random_tensor({21}, 3);
    const auto actual = in_both_orders([&] {
      const at::Tensor input = on_device(x);
      const at::Tensor shift = on_device(bias);
      const at::Tensor sums = on_device(at::ones({21}));
      return Tensors{tested::bias_activation(input, shift, function),
                     tested::bias_activation_backward(on_device(grad), input, shift, function, sums), sums};
    });
    const at::Tensor sums = at::ones({21});
    const Tensors expected{operators::bias_activation(exact(x), bias, function),
                           operators::bias_activation_backward(exact(grad), exact(x), bias, function, sums),
                           sums};
    SCOPED_TRACE(function);
    EXPECT_EQ(actual[0].scalar_type(), type());
    expect_all_close(actual, expected, tolerance());
  }
}

TEST_P(CudaActivation, EqualsTheCpuKernelForOddSizes) {
  constexpr auto kGelu = static_cast<int64_t>(Activation::kGelu);
  for (const auto& [rows, cols] : kSizes) {
    const at::Tensor x = activations({rows, cols}, 4);
    const at::Tensor grad = activations({rows, cols}, 5);
    const at::Tensor bias = random_tensor({cols}, 6);
    const auto actual = in_both_orders([&, n = cols] {
      const at::Tensor input = on_device(x);
      const at::Tensor shift = on_device(bias);
      const at::Tensor sums = on_device(at::zeros({n}));
      const at::Tensor plain_sums = on_device(at::zeros({n}));
      tested::add_bias_backward(on_device(grad), plain_sums);
      return Tensors{tested::bias_activation(input, shift, kGelu),
                     tested::bias_activation_backward(on_device(grad), input, shift, kGelu, sums), sums,
                     tested::add_bias(input, shift), plain_sums};
    });
    const at::Tensor sums = at::zeros({cols});
    const at::Tensor plain_sums = at::zeros({cols});
    operators::add_bias_backward(exact(grad), plain_sums);
    SCOPED_TRACE(cols);
    expect_all_close(actual,
                     {operators::bias_activation(exact(x), bias, kGelu),
                      operators::bias_activation_backward(exact(grad), exact(x), bias, kGelu, sums), sums,
                      operators::add_bias(exact(x), bias), plain_sums},
                     tolerance());
  }
}

TEST_P(CudaActivation, AFrozenBiasGetsNoGradient) {
  const at::Tensor x = on_device(activations({4, 9}, 7));
  const at::Tensor bias = on_device(random_tensor({9}, 8));
  const at::Tensor sums = on_device(at::zeros({9}));
  EXPECT_TRUE(same(tested::bias_activation_backward(x, x, bias, 0, std::nullopt),
                   tested::bias_activation_backward(x, x, bias, 0, sums)));
}

TEST_P(CudaActivation, NoRowsAreNoWork) {
  const at::Tensor x = on_device(activations({0, 9}, 7));
  const at::Tensor bias = on_device(random_tensor({9}, 8));
  const at::Tensor sums = on_device(at::zeros({9}));
  EXPECT_EQ(tested::bias_activation(x, bias, 0).sizes(), x.sizes());
  EXPECT_EQ(tested::bias_activation_backward(x, x, bias, 0, sums).sizes(), x.sizes());
  EXPECT_EQ(sums.abs().max().item<float>(), 0.0f);
}

}  // namespace
}  // namespace finetune::kernels::testing
