#include "kernels/cpu/isa_kernels.h"
#include "support.h"

namespace finetune::kernels::testing {
namespace {

using cpu::IsaKernels;

/// Every instruction set of this machine against plain C++, on the same memory.
class Isa : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    fast_ = cpu::find_isa_kernels(GetParam());
    plain_ = cpu::find_isa_kernels("DEFAULT");
    ASSERT_NE(plain_, nullptr);
    ASSERT_NE(fast_, nullptr);
  }
  const IsaKernels* fast_ = nullptr;
  const IsaKernels* plain_ = nullptr;
};

/// The sets beyond plain C++ that this machine has.
std::vector<const char*> sets_of_this_machine() {
  std::vector<const char*> sets;
  for (const char* set : {"AVX2", "AVX512"}) {
    if (cpu::find_isa_kernels(set) != nullptr) sets.push_back(set);
  }
  return sets;
}

INSTANTIATE_TEST_SUITE_P(Sets, Isa, ::testing::ValuesIn(sets_of_this_machine()));
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Isa);

cpu::DropoutDraw some_draw() { return {.seed = 77, .step = 3, .site = 2, .threshold = 20000, .scale = 1.5f}; }

TEST_P(Isa, Activations) {
  const at::Tensor x = random_tensor({5, 45}, 1) * 3, bias = random_tensor({45}, 2),
                   grad = random_tensor({5, 45}, 3);
  for (int64_t activation = 0; activation < 6; ++activation) {
    const auto run = [&](const IsaKernels* kernels) {
      const at::Tensor y = at::empty_like(x), x_grad = at::empty_like(x), sums = at::zeros({45});
      kernels->of<float>().bias_activation(x.data_ptr<float>(), bias.data_ptr<float>(), y.data_ptr<float>(),
                                           5, 45, activation);
      kernels->of<float>().bias_activation_backward(grad.data_ptr<float>(), x.data_ptr<float>(),
                                                    bias.data_ptr<float>(), x_grad.data_ptr<float>(),
                                                    sums.data_ptr<float>(), 5, 45, activation);
      return at::cat({y, x_grad, sums.view({1, -1})});
    };
    expect_close(run(fast_), run(plain_).to(at::kDouble), 1e-6, "activation");
  }
}

TEST_P(Isa, Dropout) {
  const at::Tensor x = random_tensor({7, 1061}, 1), keys = token_keys({4, 3});
  const auto run = [&](const IsaKernels* kernels) {
    const at::Tensor y = at::empty_like(x);
    kernels->of<float>().dropout(x.data_ptr<float>(), keys.data_ptr<int64_t>(), y.data_ptr<float>(), 7, 1061,
                                 some_draw());
    return y;
  };
  EXPECT_TRUE(same(run(fast_), run(plain_)));
}

TEST_P(Isa, LayerNorm) {
  constexpr int64_t kRows = 7, kCols = 61;
  const at::Tensor x = random_tensor({kRows, kCols}, 1), residual = random_tensor({kRows, kCols}, 2);
  const at::Tensor parameters = random_tensor({3, kCols}, 3), keys = token_keys({4, 3});
  const auto run = [&](const IsaKernels* kernels) {
    const float* rows = parameters.data_ptr<float>();
    const cpu::NormRows shape{kRows, kCols, rows, rows + kCols, 1e-12f};
    const at::Tensor y = at::empty_like(x), sum = at::empty_like(x), mean = at::empty({kRows}),
                     rstd = at::empty({kRows}), sum_grad = at::empty_like(x), x_grad = at::empty_like(x),
                     sums = at::zeros({3, kCols});
    kernels->of<float>().dropout_add_layer_norm(shape, x.data_ptr<float>(), rows + 2 * kCols,
                                                residual.data_ptr<float>(), keys.data_ptr<int64_t>(),
                                                some_draw(), y.data_ptr<float>(), sum.data_ptr<float>(),
                                                mean.data_ptr<float>(), rstd.data_ptr<float>());
    float* s = sums.data_ptr<float>();
    kernels->of<float>().layer_norm_backward(
        shape, residual.data_ptr<float>(), sum.data_ptr<float>(), mean.data_ptr<float>(),
        rstd.data_ptr<float>(), keys.data_ptr<int64_t>(), some_draw(), sum_grad.data_ptr<float>(),
        x_grad.data_ptr<float>(), {s, s + kCols, s + 2 * kCols});
    return at::cat({y, sum, sum_grad, x_grad, sums});
  };
  expect_close(run(fast_), run(plain_).to(at::kDouble), 1e-6, "layer norm");
}

TEST_P(Isa, Attention) {
  constexpr int64_t kLength = 71, kHeadSize = 20;
  const at::Tensor qkv = random_tensor({kLength, 3 * kHeadSize}, 1), bias = random_tensor({3 * kHeadSize}, 2),
                   grad = random_tensor({kLength, kHeadSize}, 3), keys = token_keys({kLength});
  const auto run = [&](const IsaKernels* kernels) {
    cpu::AttentionShape<float> shape;
    shape.hidden = shape.head_size = kHeadSize;
    shape.num_tokens = kLength;
    shape.scale = 0.2f;
    shape.qkv = qkv.data_ptr<float>();
    shape.qkv_bias = bias.data_ptr<float>();
    shape.token_keys = keys.data_ptr<int64_t>();
    shape.draw = some_draw();
    const cpu::AttentionTile tile{0, kLength, 0};
    const at::Tensor scratch = at::empty({kernels->attention_scratch(kLength, kHeadSize, true)});
    const at::Tensor y = at::empty({kLength, kHeadSize}), lse = at::empty({kLength}),
                     qkv_grad = at::empty_like(qkv), sums = at::empty({1, 3 * kHeadSize});
    kernels->of<float>().attention(shape, tile, scratch.data_ptr<float>(), y.data_ptr<float>(),
                                   lse.data_ptr<float>());
    kernels->of<float>().attention_backward(shape, tile, grad.data_ptr<float>(), y.data_ptr<float>(),
                                            lse.data_ptr<float>(), scratch.data_ptr<float>(),
                                            qkv_grad.data_ptr<float>(), sums.data_ptr<float>());
    return at::cat({y.view({-1}), lse, qkv_grad.view({-1}), sums.view({-1})});
  };
  expect_close(run(fast_), run(plain_).to(at::kDouble), 2e-6, "attention");
}

/// Loads and stores of the low-precision formats, in whole vectors and in parts of one.
template <typename T>
void expect_low_precision_rows_agree(const IsaKernels& fast, const IsaKernels& plain) {
  constexpr at::ScalarType kType = c10::CppTypeToScalarType<T>::value;
  const at::Tensor x = (random_tensor({5, 45}, 1) * 100).to(kType), bias = random_tensor({45}, 2);
  const auto run = [&](const IsaKernels& kernels) {
    const at::Tensor y = at::empty_like(x);
    kernels.of<T>().add_bias(x.data_ptr<T>(), bias.data_ptr<float>(), y.data_ptr<T>(), 5, 45);
    return y;
  };
  EXPECT_TRUE(same(run(fast), run(plain)));
  EXPECT_TRUE(same(run(plain), (x.to(at::kFloat) + bias).to(kType)));
}

TEST_P(Isa, LowPrecision) {
  expect_low_precision_rows_agree<c10::BFloat16>(*fast_, *plain_);
  expect_low_precision_rows_agree<c10::Half>(*fast_, *plain_);
}

TEST_P(Isa, Adam) {
  const at::Tensor start = random_tensor({4, 83}, 1);
  const auto run = [&](const IsaKernels* kernels) {
    const at::Tensor state = start.clone();
    state[3].abs_();
    float* p = state.data_ptr<float>();
    kernels->of<float>().adam(
        p, p + 83, p + 2 * 83, p + 3 * 83, nullptr, 83,
        {.grad_scale = 0.5f, .decay_factor = 0.99f, .step_size = 0.1f, .correction2_sqrt = 0.3f});
    return state;
  };
  expect_close(run(fast_), run(plain_).to(at::kDouble), 1e-6, "adam");
}

TEST(IsaTable, IsTheBestThatLibTorchUses) {
  EXPECT_EQ(cpu::find_isa_kernels(cpu::isa_kernels().name), &cpu::isa_kernels());
}

}  // namespace
}  // namespace finetune::kernels::testing
