#include "finetune/metrics/classification.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cmath>

namespace finetune {
namespace {

using Confusion = std::vector<std::vector<int64_t>>;

// tests/parity/metrics_test.py compares whole evaluations with scikit-learn; these are worked out by hand.

TEST(ClassificationMetrics, OfTwoClasses) {
  const Json metrics = classification_metrics(Confusion{{6, 2}, {1, 3}});
  EXPECT_DOUBLE_EQ(metrics.at("accuracy").get<double>(), 9.0 / 12);
  const double f1_first = 2 * 6.0 / (8 + 7), f1_second = 2 * 3.0 / (4 + 5);
  EXPECT_DOUBLE_EQ(metrics.at("macro_f1").get<double>(), (f1_first + f1_second) / 2);
  EXPECT_DOUBLE_EQ(metrics.at("matthews_correlation").get<double>(),
                   (6 * 3 - 2 * 1) / std::sqrt(8 * 4 * 7 * 5));
}

TEST(ClassificationMetrics, OfAPerfectAnswer) {
  const Json metrics = classification_metrics(Confusion{{3, 0, 0}, {0, 1, 0}, {0, 0, 2}});
  EXPECT_EQ(metrics.at("accuracy"), 1.0);
  EXPECT_EQ(metrics.at("macro_f1"), 1.0);
  EXPECT_EQ(metrics.at("matthews_correlation"), 1.0);
}

TEST(ClassificationMetrics, PassOverAClassThatNeitherOccursNorIsPredicted) {
  const Json metrics = classification_metrics(Confusion{{1, 1, 0}, {0, 2, 0}, {0, 0, 0}});
  EXPECT_DOUBLE_EQ(metrics.at("macro_f1").get<double>(), (2.0 / 3 + 4.0 / 5) / 2);
}

TEST(ClassificationMetrics, CountAClassThatIsOnlyPredicted) {
  const Json metrics = classification_metrics(Confusion{{1, 1}, {0, 0}});
  EXPECT_DOUBLE_EQ(metrics.at("macro_f1").get<double>(), (2.0 / 3 + 0) / 2);
  EXPECT_EQ(metrics.at("matthews_correlation"), 0.0);
}

TEST(ClassificationMetrics, OfNothingAreZero) {
  const Json metrics = classification_metrics(Confusion{{0, 0}, {0, 0}});
  for (const char* name : {"accuracy", "macro_f1", "matthews_correlation"})
    EXPECT_EQ(metrics.at(name), 0.0) << name;
}

class ClassificationMeterTest : public ::testing::Test {
 protected:
  void add(const std::vector<int64_t>& predicted, const std::vector<int64_t>& gold, double loss_sum,
           double weight) {
    const auto index = at::tensor(at::ArrayRef<int64_t>(predicted), at::kLong);
    const auto logits =
        at::zeros({static_cast<int64_t>(predicted.size()), 3}).scatter(1, index.unsqueeze(1), 5.0);
    meter_.add(at::scalar_tensor(loss_sum, at::kFloat), logits,
               at::tensor(at::ArrayRef<int64_t>(gold), at::kLong), weight);
  }

  ClassificationMeter meter_{3, -100, c10::Device(c10::kCPU)};
};

TEST_F(ClassificationMeterTest, SumsOverBatches) {
  add({0, 1, 2}, {0, 1, 1}, 3.0, 3);
  add({2}, {0}, 1.0, 1);
  const Json result = meter_.drain();
  EXPECT_EQ(result.at("confusion").get<Confusion>(), (Confusion{{1, 0, 1}, {0, 1, 1}, {0, 0, 0}}));
  EXPECT_DOUBLE_EQ(result.at("loss").get<double>(), 1.0) << "a mean over labels, never a mean of means";
  EXPECT_DOUBLE_EQ(result.at("accuracy").get<double>(), 0.5);
}

TEST_F(ClassificationMeterTest, LeavesIgnoredRowsOut) {
  add({0, 1, 2}, {0, -100, -100}, 2.0, 1);
  const Json result = meter_.drain();
  EXPECT_EQ(result.at("confusion").get<Confusion>(), (Confusion{{1, 0, 0}, {0, 0, 0}, {0, 0, 0}}));
  EXPECT_DOUBLE_EQ(result.at("loss").get<double>(), 2.0);
  EXPECT_DOUBLE_EQ(result.at("accuracy").get<double>(), 1.0);
}

TEST_F(ClassificationMeterTest, OfIgnoredRowsOnlyHasNoLoss) {
  add({0}, {-100}, 0.0, 0);
  EXPECT_EQ(meter_.drain().at("loss"), 0.0);
}

}  // namespace
}  // namespace finetune
