#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support.h"

namespace finetune::kernels::testing {
namespace {

/// Parameters of many sizes, more of them than one launch takes, one larger than a block.
constexpr int64_t kNumParameters = 51;
constexpr int64_t kLargest = 8192 + 13;

struct State {
  Tensors params, grads, exp_avgs, exp_avg_sqs, copies;
  at::Tensor steps;
  std::vector<double> weight_decays;

  explicit State(std::optional<at::ScalarType> copy_type = std::nullopt) {
    for (int64_t i = 0; i < kNumParameters; ++i) {
      const int64_t count = i == 1 ? kLargest : 1 + i * 7;
      const auto seed = static_cast<uint64_t>(4 * i);
      params.push_back(random_tensor({count}, seed));
      grads.push_back(random_tensor({count}, seed + 1));
      exp_avgs.push_back(random_tensor({count}, seed + 2));
      exp_avg_sqs.push_back(random_tensor({count}, seed + 3).abs());
      weight_decays.push_back(i % 2 == 0 ? 0.01 : 0.0);
      if (copy_type) copies.push_back(at::full({i % 3 == 0 ? count : 0}, -1.0, *copy_type));
    }
    steps = at::arange(static_cast<int64_t>(params.size())).to(at::kFloat);
  }
  size_t size() const { return params.size(); }
  State& to_device() {
    for (Tensors* list : {&params, &grads, &exp_avgs, &exp_avg_sqs, &copies}) {
      for (at::Tensor& tensor : *list) tensor = on_device(tensor);
    }
    steps = on_device(steps);
    return *this;
  }
  Tensors all() const {
    Tensors result{steps};
    for (const Tensors* list : {&params, &grads, &exp_avgs, &exp_avg_sqs}) {
      result.insert(result.end(), list->begin(), list->end());
    }
    return result;
  }
};

constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEps = 1e-8;

void step(State& s, bool decoupled, float skip) {
  s.to_device();
  tested::adam_step(s.params, s.grads, s.exp_avgs, s.exp_avg_sqs, s.copies, s.steps, s.weight_decays,
                    on_device(at::full({}, 1e-2)), on_device(at::full({}, 0.5)),
                    on_device(at::full({}, skip)), kBeta1, kBeta2, kEps, decoupled);
}

TEST(CudaAdam, EqualsTheCpuKernel) {
  for (const bool decoupled : {true, false}) {
    const auto actual = in_both_orders([&] {
      State state;
      step(state, decoupled, 0.0f);
      return state.all();
    });
    State expected;
    operators::adam_step(expected.params, expected.grads, expected.exp_avgs, expected.exp_avg_sqs,
                         expected.copies, expected.steps, expected.weight_decays, at::full({}, 1e-2),
                         at::full({}, 0.5), at::full({}, 0.0f), kBeta1, kBeta2, kEps, decoupled);
    expect_all_close(actual, expected.all(), 1e-6);
  }
}

TEST(CudaAdam, ASkippedUpdateOnlyClearsTheGradients) {
  State state;
  const State before;
  step(state, true, 1.0f);
  EXPECT_TRUE(same(state.steps.to(at::kCPU), before.steps));
  for (size_t i = 0; i < state.size(); ++i) {
    EXPECT_TRUE(same(state.params[i].to(at::kCPU), before.params[i]));
    EXPECT_TRUE(same(state.exp_avgs[i].to(at::kCPU), before.exp_avgs[i]));
    EXPECT_TRUE(same(state.exp_avg_sqs[i].to(at::kCPU), before.exp_avg_sqs[i]));
    EXPECT_EQ(state.grads[i].abs().max().item<float>(), 0.0f);
  }
}

TEST(CudaAdam, CopiesGetTheNewValuesRounded) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    State state(type);
    step(state, true, 0.0f);
    for (size_t i = 0; i < state.size(); ++i) {
      if (state.copies[i].numel() == 0) continue;
      EXPECT_TRUE(same(state.copies[i], state.params[i].to(type))) << i;
    }
  }
}

}  // namespace
}  // namespace finetune::kernels::testing
