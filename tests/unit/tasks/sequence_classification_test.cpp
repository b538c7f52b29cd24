#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cmath>

#include "finetune/tasks/task.h"

namespace finetune {
namespace {

using ::testing::ElementsAre;

std::unique_ptr<Task> make(double label_smoothing = 0) {
  TaskConfig config;
  config.label_smoothing = label_smoothing;
  return make_task(config, LabelMap({"no", "maybe", "yes"}));
}

at::Tensor labels(const std::vector<int64_t>& values) {
  return at::tensor(at::ArrayRef<int64_t>(values), at::kLong);
}

TEST(SequenceClassification, WeighsEachLabelOneAndAnIgnoredOneNothing) {
  DeviceDataset rows;
  rows.host_labels = {0, -100, 2};
  EXPECT_THAT(make()->label_weights(rows), ElementsAre(1, 0, 1));
}

TEST(SequenceClassification, LossIsTheSumOfCrossEntropies) {
  const auto logits = at::tensor({0.0, 1.0, 2.0, 3.0, 0.0, 0.0}, at::kFloat).reshape({2, 3});
  const double first = std::log(1 + std::exp(1.0) + std::exp(2.0)) - 2;
  const double second = std::log(std::exp(3.0) + 2) - 0;
  EXPECT_NEAR(make()->loss_sum(logits, labels({2, 1})).item<double>(), first + second, 1e-5);
}

TEST(SequenceClassification, IgnoredLabelsAddNothing) {
  const auto logits = at::tensor({0.0, 1.0, 2.0, 3.0, 0.0, 0.0}, at::kFloat).reshape({2, 3}).requires_grad_();
  const auto loss = make()->loss_sum(logits, labels({-100, 0}));
  EXPECT_NEAR(loss.item<double>(), std::log(std::exp(3.0) + 2) - 3, 1e-5);
  loss.backward();
  EXPECT_TRUE(logits.grad()[0].eq(0).all().item<bool>());
}

TEST(SequenceClassification, LossOfIgnoredLabelsOnlyIsZeroNotUndefined) {
  EXPECT_EQ(make()->loss_sum(at::ones({2, 3}), labels({-100, -100})).item<double>(), 0);
}

TEST(SequenceClassification, SmoothingSpreadsAShareOverAllClasses) {
  const auto logits = at::tensor({0.0, 0.0, 2.0}, at::kFloat).reshape({1, 3});
  const double log_sum = std::log(2 + std::exp(2.0));
  const double expected = 0.9 * (log_sum - 2) + 0.1 * (3 * log_sum - 2) / 3;
  EXPECT_NEAR(make(0.1)->loss_sum(logits, labels({2})).item<double>(), expected, 1e-6);
}

TEST(SequenceClassification, AnswersWithLabelScoreAndAllScores) {
  const float logits[] = {1.0f, 3.0f, 2.0f};
  const Json answer = make()->answer({}, {.values = logits});
  const double total = std::exp(1.0) + std::exp(2.0) + std::exp(3.0);
  EXPECT_EQ(answer.at("label"), "maybe");
  EXPECT_NEAR(answer.at("score").get<double>(), std::exp(3.0) / total, 1e-12);
  EXPECT_NEAR(answer.at("scores").at("no").get<double>(), std::exp(1.0) / total, 1e-12);
  EXPECT_EQ(answer.at("scores").size(), 3u);
}

TEST(SequenceClassification, AnswersLargeLogitsWithoutOverflow) {
  const float logits[] = {1e30f, -1e30f, 0.0f};
  EXPECT_EQ(make()->answer({}, {.values = logits}).at("score"), 1.0);
}

TEST(SequenceClassification, IsNamedAsInConfigs) {
  EXPECT_EQ(task_name(TaskType::kSequenceClassification), "sequence_classification");
}

}  // namespace
}  // namespace finetune
