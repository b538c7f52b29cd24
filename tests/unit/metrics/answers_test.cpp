#include "finetune/metrics/answers.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace finetune {
namespace {

using ::testing::DoubleNear;

const c10::Device kCpu(c10::kCPU);

AnswerMeter meter_of(LabelShape shape) { return {shape, -100, 0.5, kCpu}; }

/// Logits whose softmax is `shares`.
at::Tensor logits_of(const std::vector<std::vector<double>>& shares) {
  std::vector<at::Tensor> rows;
  for (const auto& row : shares) rows.push_back(at::tensor(row, at::kFloat).log());
  return at::stack(rows);
}

TEST(AnswerMeter, RanksAnswersByLossAndWrongOnesByConfidence) {
  AnswerMeter meter = meter_of(LabelShape::kClass);
  meter.add(logits_of({{0.9, 0.05, 0.05}, {0.4, 0.35, 0.25}}), at::tensor({0, 1}, at::kLong));
  meter.add(logits_of({{0.1, 0.8, 0.1}, {0.3, 0.3, 0.4}}), at::tensor({2, -100}, at::kLong));
  const AnswerSummary summary = meter.drain();

  ASSERT_EQ(summary.worst.size(), 3u);  // the ignored one is none
  EXPECT_EQ(summary.worst[0].index, 2);
  EXPECT_EQ(summary.worst[0].gold, 2);
  EXPECT_EQ(summary.worst[0].predicted, 1);
  EXPECT_THAT(summary.worst[0].score, DoubleNear(0.8, 1e-6));
  EXPECT_THAT(summary.worst[0].error, DoubleNear(-std::log(0.1), 1e-5));
  EXPECT_EQ(summary.worst[1].index, 1);
  EXPECT_EQ(summary.worst[2].index, 0);

  ASSERT_EQ(summary.confident.size(), 2u);
  EXPECT_EQ(summary.confident[0].index, 2);
  EXPECT_EQ(summary.confident[1].index, 1);
}

TEST(AnswerMeter, CountsHowOftenAProbabilityIsRight) {
  AnswerMeter meter = meter_of(LabelShape::kClass);
  meter.add(logits_of({{0.85, 0.15}, {0.81, 0.19}, {0.45, 0.55}, {1.0, 1e-30}}),
            at::tensor({0, 1, 1, 0}, at::kLong));
  const auto bins = meter.drain().calibration;
  ASSERT_EQ(bins.size(), 10u);
  EXPECT_EQ(bins[8].count, 2);
  EXPECT_THAT(bins[8].score, DoubleNear(0.83, 1e-6));
  EXPECT_EQ(bins[8].right, 0.5);
  EXPECT_EQ(bins[5].count, 1);
  EXPECT_EQ(bins[9].count, 1);  // certainty falls into the last bin
  EXPECT_EQ(bins[0].count, 0);
}

TEST(AnswerMeter, KeepsTheWorstOfAnyNumberOfRows) {
  constexpr int64_t kRows = 1000, kBatch = 64;
  const at::Tensor logits = at::randn({kRows, 4}), labels = at::randint(4, {kRows}, at::kLong);
  AnswerMeter meter = meter_of(LabelShape::kClass);
  for (int64_t row = 0; row < kRows; row += kBatch)
    meter.add(logits.slice(0, row, row + kBatch), labels.slice(0, row, row + kBatch));
  const auto worst = meter.drain().worst;

  std::vector<std::pair<double, int64_t>> expected;
  const at::Tensor losses =
      at::nll_loss(logits.to(at::kDouble).log_softmax(1), labels, {}, at::Reduction::None);
  for (int64_t row = 0; row < kRows; ++row) expected.emplace_back(-losses[row].item<double>(), row);
  std::sort(expected.begin(), expected.end());
  ASSERT_GE(worst.size(), 20u);
  ASSERT_LT(worst.size(), 100u);
  for (size_t i = 0; i < worst.size(); ++i) EXPECT_EQ(worst[i].index, expected[i].second) << i;
}

TEST(AnswerMeter, NamesTheClassOfASetThatIsFurthestOff) {
  AnswerMeter meter = meter_of(LabelShape::kClasses);
  const at::Tensor shares = at::tensor({0.9, 0.2, 0.6, 0.1, 0.1, 0.3}, at::kFloat).view({2, 3});
  meter.add(shares.logit(), at::tensor({1.0, 0.0, 0.0, 0.0, 1.0, 0.0}, at::kFloat).view({2, 3}));
  const AnswerSummary summary = meter.drain();
  ASSERT_EQ(summary.worst.size(), 2u);
  EXPECT_EQ(summary.worst[0].index, 1);
  EXPECT_EQ(summary.worst[0].predicted, 1);
  EXPECT_EQ(summary.worst[0].gold, 1);
  EXPECT_THAT(summary.worst[0].error, DoubleNear(0.9, 1e-6));
  EXPECT_EQ(summary.worst[1].predicted, 2);
  ASSERT_EQ(summary.confident.size(), 2u);
  int64_t count = 0;
  for (const CalibrationBin& bin : summary.calibration) count += bin.count;
  EXPECT_EQ(count, 6);
}

TEST(AnswerMeter, RanksNumbersByTheirDistance) {
  AnswerMeter meter = meter_of(LabelShape::kValue);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  meter.add(at::tensor({1.0, 2.0, 3.0}, at::kFloat).view({3, 1}),
            at::tensor({1.5, nan, -1.0}, at::kFloat).view({3, 1}));
  const AnswerSummary summary = meter.drain();
  ASSERT_EQ(summary.worst.size(), 2u);
  EXPECT_EQ(summary.worst[0].index, 2);
  EXPECT_EQ(summary.worst[0].error, 4);
  EXPECT_EQ(summary.worst[0].predicted, 3);
  EXPECT_EQ(summary.worst[1].error, 0.5);
  EXPECT_TRUE(summary.confident.empty());
  EXPECT_TRUE(summary.calibration.empty());
}

TEST(AnswerMeter, RanksNothingOfAModelThatDiverged) {
  AnswerMeter meter = meter_of(LabelShape::kClass);
  meter.add(at::full({2, 3}, std::numeric_limits<float>::quiet_NaN()), at::tensor({0, 1}, at::kLong));
  const AnswerSummary summary = meter.drain();
  EXPECT_TRUE(summary.worst.empty());
  EXPECT_TRUE(summary.confident.empty());
}

}  // namespace
}  // namespace finetune
