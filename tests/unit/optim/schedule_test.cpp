#include "finetune/optim/schedule.h"

#include <gmock/gmock.h>

#include <cmath>

namespace finetune {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::SizeIs;

// tests/parity/optimizer_test.py compares every schedule with transformers' get_scheduler.

TEST(LearningRates, LinearFallsToZeroAfterTheLastUpdate) {
  const auto rates = learning_rates({.type = ScheduleType::kLinear, .warmup = 0}, 0.4, 4);
  EXPECT_THAT(rates, ElementsAre(FloatEq(0.4f), FloatEq(0.3f), FloatEq(0.2f), FloatEq(0.1f), 0.0f));
}

TEST(LearningRates, WarmUpRisesFromZeroToThePeak) {
  const auto rates = learning_rates({.type = ScheduleType::kConstant, .warmup = 2}, 1.0, 4);
  EXPECT_THAT(rates, ElementsAre(0.0f, 0.5f, 1.0f, 1.0f, 1.0f));
}

TEST(LearningRates, WarmUpBelowOneIsAFractionRoundedUp) {
  EXPECT_EQ(learning_rates({.type = ScheduleType::kConstant, .warmup = 0.1}, 1.0, 11),
            learning_rates({.type = ScheduleType::kConstant, .warmup = 2}, 1.0, 11));
}

TEST(LearningRates, CosineIsHalfWayDownInTheMiddle) {
  const auto rates = learning_rates({.type = ScheduleType::kCosine, .warmup = 0}, 2.0, 10);
  EXPECT_FLOAT_EQ(rates[0], 2.0f);
  EXPECT_FLOAT_EQ(rates[5], 1.0f);
  EXPECT_NEAR(rates[10], 0.0, 1e-7);
}

TEST(LearningRates, InverseSquareRootFallsWithTheStep) {
  const auto rates = learning_rates({.type = ScheduleType::kInverseSqrt, .warmup = 4}, 1.0, 20);
  EXPECT_FLOAT_EQ(rates[4], 1.0f);
  EXPECT_FLOAT_EQ(rates[16], 0.5f);
}

TEST(LearningRates, PolynomialEndsAtItsFloor) {
  const auto rates = learning_rates({.type = ScheduleType::kPolynomial, .warmup = 0}, 1e-3, 10);
  EXPECT_FLOAT_EQ(rates[10], 1e-7f);
}

TEST(LearningRates, HasAnEntryForEachUpdateAndOneMore) {
  for (const auto type : {ScheduleType::kLinear, ScheduleType::kCosine, ScheduleType::kConstant,
                          ScheduleType::kPolynomial, ScheduleType::kInverseSqrt}) {
    const auto rates = learning_rates({.type = type, .warmup = 0.3}, 1e-3, 7);
    EXPECT_THAT(rates, SizeIs(8));
    EXPECT_THAT(rates, Each(::testing::AllOf(::testing::Ge(0.0f), ::testing::Le(1e-3f))));
  }
}

TEST(LearningRates, OfAWarmUpLongerThanTheRunNeverReachThePeak) {
  const auto rates = learning_rates({.type = ScheduleType::kLinear, .warmup = 10}, 1.0, 3);
  EXPECT_THAT(rates, ElementsAre(0.0f, FloatEq(0.1f), FloatEq(0.2f), FloatEq(0.3f)));
}

}  // namespace
}  // namespace finetune
