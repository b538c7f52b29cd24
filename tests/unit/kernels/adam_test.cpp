#include <ATen/Parallel.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "support.h"

namespace finetune::kernels::testing {
namespace {

/// Parameters with their state, and one update of them.
struct AdamState {
  std::vector<at::Tensor> params, grads, exp_avgs, exp_avg_sqs;
  at::Tensor steps;
  std::vector<double> weight_decays;

  explicit AdamState(const std::vector<at::Tensor>& values, std::vector<double> decays)
      : params(values),
        steps(at::zeros({static_cast<int64_t>(values.size())})),
        weight_decays(std::move(decays)) {
    for (at::Tensor& value : params) {
      value = value.clone();
      grads.push_back(at::zeros_like(value));
      exp_avgs.push_back(at::zeros_like(value));
      exp_avg_sqs.push_back(at::zeros_like(value));
    }
  }

  void update(double learning_rate, const AdamOptions& options, double grad_scale = 1.0, double skip = 0.0) {
    const auto scalar = [](double value) { return at::scalar_tensor(value, at::kFloat); };
    adam_step(params, grads, exp_avgs, exp_avg_sqs, {}, steps, weight_decays, scalar(learning_rate),
              scalar(grad_scale), scalar(skip), options);
  }
};

TEST(AdamStep, ReproducesThePublishedTrajectories) {
  std::ifstream file(FINETUNE_TEST_DATA "/cases/31-adamw-variants/expected.json");
  const nlohmann::json expected = nlohmann::json::parse(file);
  const auto run = [&](const char* name, AdamOptions options, double weight_decay) {
    SCOPED_TRACE(name);
    const auto start = expected.at("start").get<std::vector<double>>();
    AdamState state({at::tensor(start, at::kFloat)}, {weight_decay});
    size_t step = 0;
    for (const auto& gradient : expected.at("gradients")) {
      state.grads[0].copy_(at::tensor(gradient.get<std::vector<double>>(), at::kFloat));
      state.update(expected.at("lr").get<double>(), options);
      const auto values = expected.at("after_each_step").at(name).at(step++).get<std::vector<double>>();
      for (size_t i = 0; i < values.size(); ++i) {
        EXPECT_NEAR(state.params[0][static_cast<int64_t>(i)].item<double>(), values[i], 1e-6)
            << "step " << step;
      }
    }
  };
  const auto decay = expected.at("weight_decay").get<double>();
  run("adamw eps 1e-8 (torch; default here)", {}, decay);
  run("adamw eps 1e-6", {.eps = 1e-6}, decay);
  run("adamw no decay", {}, 0.0);
  run("adam with L2 in the gradient (not AdamW)", {.decoupled = false}, decay);
}

class AdamModes : public ::testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(Both, AdamModes, ::testing::Bool());

TEST_P(AdamModes, FollowsAtensFusedUpdate) {
  const bool decoupled = GetParam();
  const AdamOptions options{.beta1 = 0.8, .beta2 = 0.99, .eps = 1e-7, .decoupled = decoupled};
  // Many small tensors, an empty one and a large one: parts of threads start and end inside them.
  std::vector<at::Tensor> values;
  for (int64_t i = 0; i < 20; ++i) values.push_back(random_tensor({i * 7 % 31, 3}, static_cast<uint64_t>(i)));
  values.push_back(random_tensor({300, 501}, 99));
  AdamState state(values, std::vector<double>(values.size(), 0.05));
  AdamState reference(values, std::vector<double>(values.size(), 0.05));
  std::vector<at::Tensor> steps;
  for (size_t i = 0; i < values.size(); ++i) steps.push_back(at::zeros({}));

  for (uint64_t step = 1; step <= 5; ++step) {
    for (size_t i = 0; i < values.size(); ++i) {
      const at::Tensor grad = random_tensor(values[i].sizes(), 1000 * step + i);
      state.grads[i].copy_(grad);
      reference.grads[i].copy_(grad * 0.5);
      steps[i].add_(1);
    }
    state.update(1e-2, options, /*grad_scale=*/0.5);
    const auto fused = [&](auto update) {
      update(reference.params, reference.grads, reference.exp_avgs, reference.exp_avg_sqs, at::TensorList{},
             steps, 1e-2, options.beta1, options.beta2, 0.05, options.eps, false, false, std::nullopt,
             std::nullopt);
    };
    if (decoupled) {
      fused([](auto&&... arguments) { at::_fused_adamw_(arguments...); });
    } else {
      fused([](auto&&... arguments) { at::_fused_adam_(arguments...); });
    }
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].numel() == 0) continue;
    expect_close(state.params[i], reference.params[i].to(at::kDouble), 2e-7, "parameter");
    expect_close(state.exp_avgs[i], reference.exp_avgs[i].to(at::kDouble), 2e-7, "exp_avg");
    expect_close(state.exp_avg_sqs[i], reference.exp_avg_sqs[i].to(at::kDouble), 2e-7, "exp_avg_sq");
    EXPECT_EQ(state.grads[i].abs().max().item<float>(), 0.0f) << "gradients are cleared";
    EXPECT_EQ(state.steps[static_cast<int64_t>(i)].item<float>(), 5.0f);
  }
}

TEST(AdamStep, DecaysRowsThatNeverHadAGradient) {
  AdamState state({at::ones({64, 32})}, {0.1});
  state.grads[0][5].fill_(1.0);
  state.update(0.5, {});
  expect_close(state.params[0][0], at::full({32}, 0.95, at::kDouble), 1e-7, "decayed only");
  EXPECT_LT(state.params[0][5][0].item<float>(), 0.5f);
  EXPECT_EQ(state.exp_avgs[0][0].abs().max().item<float>(), 0.0f);
}

TEST(AdamStep, SkipClearsGradientsAndNothingElse) {
  AdamState state({random_tensor({70, 30}, 1), random_tensor({3}, 2)}, {0.1, 0.0});
  for (at::Tensor& grad : state.grads) grad.fill_(2.0);
  state.update(0.1, {});
  std::vector<at::Tensor> params, moments;
  for (const at::Tensor& param : state.params) params.push_back(param.clone());
  for (const at::Tensor& moment : state.exp_avgs) moments.push_back(moment.clone());
  for (at::Tensor& grad : state.grads) grad.fill_(std::numeric_limits<float>::infinity());
  state.update(0.1, {}, 1.0, /*skip=*/1.0);
  for (size_t i = 0; i < params.size(); ++i) {
    EXPECT_TRUE(same(state.params[i], params[i]));
    EXPECT_TRUE(same(state.exp_avgs[i], moments[i]));
    EXPECT_EQ(state.grads[i].abs().max().item<float>(), 0.0f);
  }
  EXPECT_TRUE(same(state.steps, at::ones({2})));
}

TEST(AdamStep, DoesNotDependOnTheNumberOfThreads) {
  const int threads = at::get_num_threads();
  std::vector<at::Tensor> results;
  for (const int n : {1, 2}) {
    at::set_num_threads(n);
    AdamState state({random_tensor({300, 300}, 1), random_tensor({7}, 2)}, {0.1, 0.0});
    state.grads[0].copy_(random_tensor({300, 300}, 3));
    state.grads[1].copy_(random_tensor({7}, 4));
    state.update(0.1, {});
    results.push_back(at::cat({state.params[0].view({-1}), state.params[1]}));
  }
  at::set_num_threads(threads);
  EXPECT_TRUE(same(results[0], results[1]));
}

TEST(AdamStep, RefusesListsThatDoNotFit) {
  AdamState state({random_tensor({4}, 1)}, {0.1});
  state.exp_avgs[0] = at::zeros({5});
  EXPECT_THROW(state.update(0.1, {}), c10::Error);
  state.exp_avgs.clear();
  EXPECT_THROW(state.update(0.1, {}), c10::Error);
}

}  // namespace
}  // namespace finetune::kernels::testing
