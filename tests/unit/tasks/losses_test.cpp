/// Losses against values that were computed in float64 (case 28), and against formulas.

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cmath>

#include "finetune/core/error.h"
#include "finetune/core/file.h"
#include "finetune/tasks/task.h"

namespace finetune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Json& expected_losses() {
  static const Json json =
      Json::parse(read_file(std::string(FINETUNE_TEST_DATA) + "/cases/28-losses/expected.json"));
  return json;
}

at::Tensor matrix(const Json& rows) {
  std::vector<float> values;
  for (const Json& row : rows) {
    for (const Json& value : row) values.push_back(value.get<float>());
  }
  return at::tensor(at::ArrayRef<float>(values), at::kFloat).reshape({static_cast<int64_t>(rows.size()), -1});
}

at::Tensor class_labels(const std::vector<int64_t>& labels) {
  return at::tensor(at::ArrayRef<int64_t>(labels), at::kLong);
}

double weight_of(const Task& task, const std::vector<int64_t>& labels) {
  DeviceDataset rows;
  rows.host_labels = labels;
  double sum = 0;
  for (const double weight : task.label_weights(rows)) sum += weight;
  return sum;
}

std::unique_ptr<Task> classification(TaskConfig config) {
  return make_task(config, LabelMap({"a", "b", "c"}));
}

void expect_row(const at::Tensor& gradients, int64_t row, const Json& expected) {
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(gradients[row][static_cast<int64_t>(i)].item<double>(), expected[i].get<double>(), 1e-6);
}

TEST(Case28Losses, CrossEntropyWithWeightsSmoothingAndIgnoredLabels) {
  const Json& all = expected_losses();
  ASSERT_EQ(all.at("cross_entropy").size(), 24u);
  for (const Json& one : all.at("cross_entropy")) {
    SCOPED_TRACE(one.dump());
    TaskConfig config;
    config.label_smoothing = one.at("label_smoothing").get<double>();
    if (one.at("weighted").get<bool>())
      config.class_weights.values = all.at("weights").get<std::vector<double>>();
    const auto task = classification(config);
    const auto labels = all.at("targets").at(one.at("target").get<std::string>()).get<std::vector<int64_t>>();
    const auto logits = matrix(all.at("logits")).requires_grad_();
    const double weight = weight_of(*task, labels);
    const auto sum = task->loss_sum(logits, class_labels(labels));
    if (one.at("mean").is_null()) {  // every label is ignored
      EXPECT_EQ(weight, 0);
      EXPECT_EQ(sum.item<double>(), 0);
      sum.backward();
      EXPECT_TRUE(logits.grad().eq(0).all().item<bool>());
      continue;
    }
    const auto loss = sum / weight;
    EXPECT_NEAR(loss.item<double>(), one.at("mean").get<double>(), 1e-6);
    loss.backward();
    expect_row(logits.grad(), 0, one.at("grad_row0"));
    expect_row(logits.grad(), 3, one.at("grad_row3"));
  }
}

TEST(Case28Losses, MicroBatchesAddUpToTheWhole) {
  const Json& all = expected_losses();
  TaskConfig config;
  config.class_weights.values = all.at("weights").get<std::vector<double>>();
  const auto task = classification(config);
  const auto labels = all.at("targets").at("two-ignored").get<std::vector<int64_t>>();
  const auto logits = matrix(all.at("logits"));
  double sum = 0;
  for (const Json& rows : all.at("micro_batches").at("rows")) {
    const auto index = class_labels(rows.get<std::vector<int64_t>>());
    sum += task->loss_sum(logits.index_select(0, index), class_labels(labels).index_select(0, index))
               .item<double>();
  }
  EXPECT_NEAR(sum / weight_of(*task, labels), all.at("micro_batches").at("right_loss").get<double>(), 1e-6);
}

TEST(Case28Losses, BinaryCrossEntropyDividesByRowsTimesClasses) {
  const Json& all = expected_losses().at("bce");
  for (const bool weighted : {false, true}) {
    TaskConfig config;
    config.type = TaskType::kMultiLabelClassification;
    if (weighted) config.pos_weight.values = all.at("pos_weight_vector").get<std::vector<double>>();
    const auto task = classification(config);
    const Json& expected = all.at(weighted ? "pos_weight" : "plain");
    const auto logits = matrix(all.at("logits")).requires_grad_();
    DeviceDataset rows;
    rows.lengths = {1, 1, 1};
    double weight = 0;
    for (const double row : task->label_weights(rows)) weight += row;
    EXPECT_EQ(weight, 9);
    const auto loss = task->loss_sum(logits, matrix(all.at("targets"))) / weight;
    EXPECT_NEAR(loss.item<double>(), expected.at("mean").get<double>(), 1e-6);
    loss.backward();
    for (int64_t row = 0; row < 3; ++row)
      expect_row(logits.grad(), row, expected.at("grad")[static_cast<size_t>(row)]);
  }
}

std::unique_ptr<Task> regression() {
  TaskConfig config;
  config.type = TaskType::kRegression;
  return make_task(config, LabelMap(fixed_labels(config.type)));
}

TEST(Case28Losses, SquaredErrorOfARowIsOneTerm) {
  const Json& all = expected_losses().at("mse");
  const auto column = [&](const char* key) {
    const auto values = all.at(key).get<std::vector<float>>();
    return at::tensor(at::ArrayRef<float>(values), at::kFloat).reshape({-1, 1});
  };
  const double sum = regression()->loss_sum(column("predicted"), column("target")).item<double>();
  EXPECT_NEAR(sum / 3, all.at("mean").get<double>(), 1e-6);
}

TEST(Regression, ARowWithoutANumberAddsNothing) {
  const auto task = regression();
  DeviceDataset rows;
  rows.host_values = {1.0f, NAN};
  EXPECT_THAT(task->label_weights(rows), ElementsAre(1, 0));
  const auto logits = at::ones({2, 1}).requires_grad_();
  const auto loss = task->loss_sum(logits, at::tensor({3.0f, NAN}).reshape({2, 1}));
  EXPECT_EQ(loss.item<double>(), 4);
  loss.backward();
  EXPECT_EQ(logits.grad()[1].item<double>(), 0);
}

TEST(Case28Losses, BalancedWeights) {
  const Json& all = expected_losses().at("auto_weights");
  EncodedDataset train;
  const auto counts = all.at("counts").get<std::vector<int64_t>>();
  for (size_t label = 0; label < counts.size(); ++label) {
    for (int64_t i = 0; i < counts[label]; ++i) train.labels.push_back(static_cast<int64_t>(label));
  }
  train.labels.push_back(-100);
  TaskConfig config;
  config.class_weights.balanced = true;
  const auto weights = with_resolved_weights(config, LabelMap({"a", "b", "c"}), train).class_weights.values;
  const auto expected = all.at("balanced (n / (classes * count))").get<std::vector<double>>();
  ASSERT_EQ(weights.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(weights[i], expected[i], 1e-9);
}

TEST(BalancedWeights, OfAClassThatNeverOccursAreFinite) {
  EncodedDataset train;
  train.labels = {0, 0, 2};
  TaskConfig config;
  config.class_weights.balanced = true;
  EXPECT_THAT(with_resolved_weights(config, LabelMap({"a", "b", "c"}), train).class_weights.values,
              ElementsAre(0.5, 0, 1));
  train.labels = {};
  train.values = {1, 0, 1, 0, 0, 0};  // three rows of two classes
  train.row_offsets = {0, 1, 2, 3};
  config = {};
  config.pos_weight.balanced = true;
  EXPECT_THAT(with_resolved_weights(config, LabelMap({"a", "b"}), train).pos_weight.values,
              ElementsAre(0.5, 1));
}

std::string weights_error(const LabelWeights& weights) {
  TaskConfig config;
  config.class_weights = weights;
  try {
    const LabelMap labels({"cat", "dog"});
    make_task(with_resolved_weights(config, labels, {}), labels);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(ClassWeights, MustFitTheLabels) {
  EXPECT_THAT(weights_error({.balanced = false, .values = {1, 2, 3}, .by_label = {}}),
              HasSubstr("task.class_weights: found 3 weights for 2 labels"));
  EXPECT_THAT(
      weights_error({.balanced = false, .values = {}, .by_label = {{"cats", 2}}}),
      HasSubstr("a weight for 'cats', which is none of the labels 'cat', 'dog' (did you mean 'cat'?)"));
}

TEST(FocalLoss, CountsWhatIsAnsweredWellLess) {
  TaskConfig config;
  config.loss = LossType::kFocal;
  config.focal_gamma = 2;
  config.class_weights.values = {1, 3};
  const auto task = make_task(config, LabelMap({"a", "b"}));
  const auto logits = at::tensor({1.0f, -1.0f, 0.5f, 2.0f, 0.0f, 9.0f}).reshape({3, 2}).requires_grad_();
  const double p = 1 / (1 + std::exp(-2.0)), q = 1 / (1 + std::exp(-1.5));
  const double expected = -std::pow(1 - p, 2) * std::log(p) - 3 * std::pow(1 - q, 2) * std::log(q);
  const auto loss = task->loss_sum(logits, class_labels({0, 1, -100}));
  EXPECT_NEAR(loss.item<double>(), expected, 1e-6);
  loss.backward();
  EXPECT_TRUE(logits.grad()[2].eq(0).all().item<bool>());
}

TEST(FocalLoss, WithoutFocusIsCrossEntropy) {
  TaskConfig config;
  config.loss = LossType::kFocal;
  config.focal_gamma = 0;
  const auto logits = matrix(expected_losses().at("logits"));
  const auto labels = class_labels({2, 1, 0, 0, 1});
  EXPECT_NEAR(classification(config)->loss_sum(logits, labels).item<double>(),
              classification({})->loss_sum(logits, labels).item<double>(), 1e-5);
}

TEST(MultiLabelClassification, AnswersFromTheThresholdOn) {
  TaskConfig config;
  config.type = TaskType::kMultiLabelClassification;
  const float logits[] = {0.0f, -0.1f, 3.0f};
  const Json answer = classification(config)->answer({}, {.values = logits});
  EXPECT_EQ(answer.at("labels"), Json({"a", "c"}));
  EXPECT_NEAR(answer.at("scores").at("b").get<double>(), 1 / (1 + std::exp(static_cast<double>(0.1f))),
              1e-12);
  config.threshold = 0.9;
  EXPECT_EQ(classification(config)->answer({}, {.values = logits}).at("labels"), Json({"c"}));
}

TEST(TokenClassification, AnswersOutsideForAWordWithoutAToken) {
  TaskConfig config;
  config.type = TaskType::kTokenClassification;
  DataConfig data;
  data.tokens = ColumnName{"tokens", {}};
  const auto task = make_task(config, LabelMap({"B-X", "O"}), data);
  Row row;
  row.items = {"a", "", "c"};
  const float logits[] = {2.0f, 0.0f, -1.0f, 1.0f};
  const std::vector<int32_t> positions{1, -1, 2};
  const Json answer = task->answer(row, {.values = logits, .of_items = true, .item_positions = positions});
  EXPECT_EQ(answer.at("tokens"), Json({"a", "", "c"}));
  EXPECT_EQ(answer.at("tags"), Json({"B-X", "O", "O"}));
  EXPECT_TRUE(answer.at("scores")[1].is_null());
}

}  // namespace
}  // namespace finetune
