#include "finetune/optim/optimizer.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <map>

#include "finetune/core/file.h"
#include "finetune/core/json.h"

namespace finetune {
namespace {

using ::testing::Contains;
using ::testing::Key;
using ::testing::Not;

at::Tensor tensor(const std::vector<float>& values) {
  return at::tensor(at::ArrayRef<float>(values), at::kFloat);
}

Parameter make_parameter(const std::string& name, const std::vector<float>& values) {
  return {name, tensor(values), at::zeros({static_cast<int64_t>(values.size())})};
}

std::map<std::string, at::Tensor> state_of(const Optimizer& optimizer) {
  std::map<std::string, at::Tensor> state;
  for (const auto& [name, live] : optimizer.state()) state.emplace(name, live);
  return state;
}

/// Settings without clipping, and a learning rate that does not change.
OptimizerConfig unclipped(OptimizerType type = OptimizerType::kAdamW) {
  OptimizerConfig config;
  config.type = type;
  config.max_grad_norm = 0;
  config.no_decay = {};
  return config;
}

/// tests/data/cases/31-adamw-variants: five coordinates after each of four gradients.
class AdamVariants : public ::testing::Test {
 protected:
  AdamVariants()
      : case_(Json::parse(
            read_file(std::string(FINETUNE_TEST_DATA) + "/cases/31-adamw-variants/expected.json"))) {}

  OptimizerConfig config(OptimizerType type) const {
    OptimizerConfig config = unclipped(type);
    config.weight_decay = case_.at("weight_decay");
    config.beta1 = case_.at("betas").at(0);
    config.beta2 = case_.at("betas").at(1);
    return config;
  }

  void expect_variant(const std::string& variant, const OptimizerConfig& config,
                      std::vector<float> rates = {}) const {
    const auto rate = case_.at("lr").get<float>();
    if (rates.empty()) rates.assign(5, rate);
    Parameter parameter = make_parameter("weight", case_.at("start").get<std::vector<float>>());
    Optimizer optimizer({parameter}, config, rates);
    const auto& expected = case_.at("after_each_step").at(variant);
    const auto& gradients = case_.at("gradients");
    for (size_t step = 0; step < gradients.size(); ++step) {
      parameter.grad.copy_(tensor(gradients.at(step).get<std::vector<float>>()));
      optimizer.step();
      for (size_t i = 0; i < 5; ++i) {
        EXPECT_NEAR(parameter.value[static_cast<int64_t>(i)].item<float>(),
                    expected.at(step).at(i).get<double>(), 1e-6)
            << variant << ", step " << step + 1 << ", coordinate " << i + 1;
      }
      EXPECT_TRUE(parameter.grad.eq(0).all().item<bool>()) << "gradients are cleared";
    }
  }

  Json case_;
};

TEST_F(AdamVariants, AdamWIsTorchs) {
  expect_variant("adamw eps 1e-8 (torch; default here)", config(OptimizerType::kAdamW));
}

TEST_F(AdamVariants, EpsStandsOutsideTheCorrectedRoot) {
  OptimizerConfig settings = config(OptimizerType::kAdamW);
  settings.eps = 1e-6;
  expect_variant("adamw eps 1e-6", settings);
}

TEST_F(AdamVariants, AdamAddsDecayToTheGradient) {
  expect_variant("adam with L2 in the gradient (not AdamW)", config(OptimizerType::kAdam));
}

TEST_F(AdamVariants, NoDecayPatternsTurnDecayOff) {
  OptimizerConfig settings = config(OptimizerType::kAdamW);
  settings.no_decay = {"weight"};
  expect_variant("adamw no decay", settings);
}

TEST_F(AdamVariants, AZeroRateStillMovesTheMoments) {
  const float rate = case_.at("lr");
  expect_variant("lr 0 at step 1, then 0.01 (warm-up)", config(OptimizerType::kAdamW),
                 {0, rate, rate, rate, rate});
}

/// A large gradient and small ones after it: the update is divided by the first one's second moment for ever,
/// and an update that is skipped changes nothing.
TEST(Optimizer, AmsgradDividesByTheLargestSecondMoment) {
  Parameter parameter = make_parameter("weight", {1, -2});
  OptimizerConfig config = unclipped(OptimizerType::kAdam);
  config.weight_decay = 0;
  config.amsgrad = true;
  config.beta2 = 0.5;
  Optimizer optimizer({parameter}, config, std::vector<float>(5, 0.1f));
  parameter.grad.copy_(tensor({4, -4}));
  optimizer.step();
  const at::Tensor largest = state_of(optimizer).at("max_exp_avg_sq/weight").clone();
  EXPECT_TRUE(largest.equal(tensor({8, 8})));
  const at::Tensor before = parameter.value.clone();
  parameter.grad.fill_(std::numeric_limits<float>::infinity());
  optimizer.step();
  EXPECT_TRUE(parameter.value.equal(before));
  EXPECT_EQ(state_of(optimizer).at("step/weight").item<float>(), 1);
  parameter.grad.copy_(tensor({1, 1}));
  optimizer.step();
  auto state = state_of(optimizer);
  EXPECT_TRUE(state.at("max_exp_avg_sq/weight").equal(largest));
  EXPECT_TRUE(state.at("exp_avg_sq/weight").equal(tensor({4.5, 4.5})));
  EXPECT_EQ(state.at("step/weight").item<float>(), 2);
  // Reddi et al. 2018 as torch.optim computes it: 0.46 is the first moment, 8 / (1 - 0.25) the divisor's
  // square.
  const double moved = 0.1 * (0.46 / (1 - 0.81)) / (std::sqrt(8 / 0.75) + 1e-8);
  EXPECT_NEAR(parameter.value[0].item<double>(), before[0].item<double>() - moved, 1e-6);
  EXPECT_TRUE(parameter.grad.eq(0).all().item<bool>());
}

TEST(Optimizer, SgdSubtractsTheGradientAndDecay) {
  Parameter parameter = make_parameter("weight", {1, -2});
  OptimizerConfig config = unclipped(OptimizerType::kSgd);
  config.weight_decay = 0.5;
  Optimizer optimizer({parameter}, config, {0.1f});
  parameter.grad.copy_(tensor({3, 4}));
  optimizer.step();
  EXPECT_TRUE(at::allclose(parameter.value, tensor({1 - 0.1f * 3.5f, -2 - 0.1f * 3})));
}

TEST(Optimizer, ClipsByTheNormOverAllParameters) {
  // torch.nn.utils.clip_grad_norm_: every gradient times max_norm / (norm + 1e-6).
  Parameter a = make_parameter("a", {0, 0}), b = make_parameter("b", {0});
  OptimizerConfig config = unclipped(OptimizerType::kSgd);
  config.weight_decay = 0;
  config.max_grad_norm = 1.0;
  Optimizer optimizer({a, b}, config, {1.0f});
  a.grad.copy_(tensor({3, 4}));
  b.grad.copy_(tensor({12}));
  EXPECT_FLOAT_EQ(optimizer.step().grad_norm.item<float>(), 13.0f);
  EXPECT_TRUE(at::allclose(a.value, tensor({-3 / 13.0f, -4 / 13.0f}), 1e-5));
  EXPECT_TRUE(at::allclose(b.value, tensor({-12 / 13.0f}), 1e-5));
}

TEST(Optimizer, DoesNotScaleASmallGradientUp) {
  Parameter parameter = make_parameter("weight", {0});
  OptimizerConfig config = unclipped(OptimizerType::kSgd);
  config.weight_decay = 0;
  config.max_grad_norm = 1.0;
  Optimizer optimizer({parameter}, config, {1.0f});
  parameter.grad.fill_(0.25);
  optimizer.step();
  EXPECT_FLOAT_EQ(parameter.value.item<float>(), -0.25f);
}

class NonFinite : public ::testing::TestWithParam<std::tuple<OptimizerType, float>> {};

TEST_P(NonFinite, LeavesWeightsMomentsAndStepsAsTheyWere) {
  const auto [type, bad] = GetParam();
  Parameter a = make_parameter("a", {1, 2}), b = make_parameter("b", {3});
  Optimizer optimizer({a, b}, unclipped(type), {0.1f, 0.2f, 0.3f});
  a.grad.fill_(0.5);
  b.grad.fill_(-0.5);
  optimizer.step();
  std::map<std::string, at::Tensor> before;
  for (const auto& [name, live] : state_of(optimizer)) before.emplace(name, live.clone());
  const auto a_before = a.value.clone(), b_before = b.value.clone();

  a.grad.copy_(tensor({1, bad}));  // one bad number in one parameter holds all of them back
  b.grad.fill_(1);
  const UpdateStats skipped = optimizer.step();
  EXPECT_EQ(skipped.nonfinite.item<float>(), 1);
  EXPECT_TRUE(at::equal(a.value, a_before));
  EXPECT_TRUE(at::equal(b.value, b_before));
  for (const auto& [name, live] : state_of(optimizer)) EXPECT_TRUE(at::equal(live, before.at(name))) << name;
  EXPECT_TRUE(at::equal(a.grad, at::zeros_like(a.grad))) << "the bad gradient is gone";

  a.grad.fill_(0.5);
  b.grad.fill_(0.5);
  const UpdateStats next = optimizer.step();
  EXPECT_EQ(next.nonfinite.item<float>(), 0);
  EXPECT_FLOAT_EQ(next.learning_rate.item<float>(), 0.2f) << "the skipped update used up no learning rate";
  EXPECT_FALSE(at::equal(a.value, a_before));
}

INSTANTIATE_TEST_SUITE_P(Kinds, NonFinite,
                         ::testing::Combine(::testing::Values(OptimizerType::kAdamW, OptimizerType::kAdam,
                                                              OptimizerType::kSgd),
                                            ::testing::Values(std::numeric_limits<float>::infinity(),
                                                              -std::numeric_limits<float>::infinity(),
                                                              std::numeric_limits<float>::quiet_NaN())));

TEST(Optimizer, TakesTheRateByAppliedUpdatesAndKeepsTheLastOne) {
  Parameter parameter = make_parameter("weight", {0});
  Optimizer optimizer({parameter}, unclipped(), {0.3f, 0.2f, 0.1f});
  for (const float expected : {0.3f, 0.2f, 0.1f, 0.1f}) {
    parameter.grad.fill_(1);
    EXPECT_FLOAT_EQ(optimizer.step().learning_rate.item<float>(), expected);
  }
}

TEST(Optimizer, TakesTheLossScaleOffBeforeClipping) {
  Parameter plain = make_parameter("weight", {1, 2}), scaled = make_parameter("weight", {1, 2});
  OptimizerConfig config = unclipped();
  config.max_grad_norm = 1;
  Optimizer without({plain}, config, {0.1f}), with({scaled}, config, {0.1f}, /*scales_loss=*/true);
  const auto scale = with.scaled(at::ones({})).item<float>();
  EXPECT_EQ(scale, 65536);
  EXPECT_EQ(without.scaled(at::ones({})).item<float>(), 1);
  plain.grad.copy_(tensor({3, 4}));
  scaled.grad.copy_(tensor({3 * scale, 4 * scale}));
  EXPECT_FLOAT_EQ(without.step().grad_norm.item<float>(), 5);
  EXPECT_FLOAT_EQ(with.step().grad_norm.item<float>(), 5);
  EXPECT_TRUE(at::equal(plain.value, scaled.value));
}

TEST(Optimizer, AnOverflowHalvesTheLossScaleAndGrowthDoublesIt) {
  Parameter parameter = make_parameter("weight", {1});
  Optimizer optimizer({parameter}, unclipped(), {1e-6f}, /*scales_loss=*/true);
  parameter.grad.fill_(std::numeric_limits<float>::infinity());
  EXPECT_EQ(optimizer.step().loss_scale.item<float>(), 32768);
  for (int i = 0; i < 1999; ++i) {
    parameter.grad.fill_(1);
    EXPECT_EQ(optimizer.step().loss_scale.item<float>(), 32768);
  }
  EXPECT_EQ(state_of(optimizer).at("loss_scale_growth").item<int>(), 1999);
  parameter.grad.fill_(1);
  EXPECT_EQ(optimizer.step().loss_scale.item<float>(), 65536);
  EXPECT_THAT(state_of(Optimizer({parameter}, unclipped(), {0.1f})), Not(Contains(Key("loss_scale"))));
}

TEST(Optimizer, KeepsLowPrecisionCopiesUpToDate) {
  for (const auto type : {OptimizerType::kAdamW, OptimizerType::kSgd}) {
    Parameter weight = make_parameter("weight", {1, 2}), bias = make_parameter("bias", {3});
    weight.copy = weight.value.to(at::kBFloat16);
    Optimizer optimizer({bias, weight}, unclipped(type), {0.1f});
    weight.grad.fill_(1);
    bias.grad.fill_(1);
    optimizer.step();
    EXPECT_FALSE(at::equal(weight.value, tensor({1, 2})));
    EXPECT_TRUE(at::equal(weight.copy, weight.value.to(at::kBFloat16)));
  }
}

TEST(Optimizer, StateIsLiveAndNamedByParameter) {
  Parameter parameter = make_parameter("layer.weight", {1, 2});
  Optimizer optimizer({parameter}, unclipped(), {0.1f});
  auto state = state_of(optimizer);
  for (const char* name :
       {"exp_avg/layer.weight", "exp_avg_sq/layer.weight", "step/layer.weight", "applied"}) {
    ASSERT_THAT(state, Contains(Key(name)));
  }
  parameter.grad.fill_(2);
  optimizer.step();
  EXPECT_TRUE(at::allclose(state.at("exp_avg/layer.weight"), tensor({0.2f, 0.2f})));
  EXPECT_TRUE(at::allclose(state.at("exp_avg_sq/layer.weight"), tensor({0.004f, 0.004f})));
  EXPECT_EQ(state.at("step/layer.weight").item<float>(), 1);
  EXPECT_EQ(state.at("applied").item<int64_t>(), 1);

  Optimizer sgd({parameter}, unclipped(OptimizerType::kSgd), {0.1f});
  EXPECT_THAT(state_of(sgd), Not(Contains(Key("exp_avg/layer.weight")))) << "plain SGD has no moments";
}

TEST(Optimizer, GoesOnFromACopiedState) {
  Parameter one = make_parameter("w", {1, -1}), other = make_parameter("w", {1, -1});
  Optimizer first({one}, unclipped(), {0.1f, 0.05f}), second({other}, unclipped(), {0.1f, 0.05f});
  one.grad.copy_(tensor({0.3f, -0.2f}));
  first.step();
  other.value.copy_(one.value);
  auto source = state_of(first), target = state_of(second);
  for (const auto& [name, live] : source) target.at(name).copy_(live);
  one.grad.copy_(tensor({-0.1f, 0.7f}));
  other.grad.copy_(one.grad);
  first.step();
  second.step();
  EXPECT_TRUE(at::equal(one.value, other.value));
}

TEST(MatchesAny, ComparesTheEndOfTheName) {
  const std::vector<std::string> patterns{"bias", "LayerNorm.weight"};
  EXPECT_TRUE(matches_any("bert.pooler.dense.bias", patterns));
  EXPECT_TRUE(matches_any("bert.embeddings.LayerNorm.weight", patterns));
  EXPECT_FALSE(matches_any("bert.pooler.dense.weight", patterns));
  EXPECT_FALSE(matches_any("bias.weight", patterns));
  EXPECT_FALSE(matches_any("bias", {}));
}

}  // namespace
}  // namespace finetune
