#include "finetune/metrics/classification.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>

#include "finetune/metrics/scores.h"

namespace finetune {
namespace {

double ratio(double numerator, double denominator) {
  return denominator == 0 ? 0.0 : numerator / denominator;
}

struct Scores {
  double precision, recall, f1;
};

Scores scores_of(const ClassCounts& counts) {
  const auto hits = static_cast<double>(counts.hits);
  const auto predicted = static_cast<double>(counts.predicted), gold = static_cast<double>(counts.gold);
  return {ratio(hits, predicted), ratio(hits, gold), ratio(2 * hits, predicted + gold)};
}

std::vector<ClassCounts> counts_of(const std::vector<std::vector<int64_t>>& confusion) {
  std::vector<ClassCounts> classes(confusion.size());
  for (size_t i = 0; i < confusion.size(); ++i) {
    for (size_t j = 0; j < confusion.size(); ++j) {
      classes[i].gold += confusion[i][j];
      classes[j].predicted += confusion[i][j];
    }
    classes[i].hits = confusion[i][i];
  }
  return classes;
}

}  // namespace

ClassificationMeter::ClassificationMeter(int64_t num_labels, int64_t ignore_index, c10::Device device,
                                         std::vector<std::string> names)
    : num_labels_(num_labels), ignore_index_(ignore_index), names_(std::move(names)), loss_(device) {
  confusion_ = at::zeros({num_labels * num_labels + 1}, at::TensorOptions(at::kLong).device(device));
}

void ClassificationMeter::add(const at::Tensor& loss_sum, const at::Tensor& logits, const at::Tensor& labels,
                              double label_weight) {
  const at::NoGradGuard no_grad;
  loss_.add(loss_sum, label_weight);
  const auto cells =
      at::where(labels == ignore_index_, num_labels_ * num_labels_, labels * num_labels_ + logits.argmax(-1));
  confusion_.scatter_add_(0, cells, at::ones_like(cells));
  if (num_labels_ != 2) return;
  const auto wide = logits.to(at::kDouble);
  scores_.add(at::stack({wide.select(1, 1) - wide.select(1, 0), labels.to(at::kDouble)}, 1));
}

Json ClassificationMeter::drain() {
  const auto counts = confusion_.cpu();
  const auto* cell = counts.const_data_ptr<int64_t>();
  std::vector<std::vector<int64_t>> confusion(static_cast<size_t>(num_labels_));
  for (auto& row : confusion) {
    row.assign(cell, cell + num_labels_);
    cell += num_labels_;
  }
  Json result{{"loss", loss_.drain()}};
  result.update(classification_metrics(confusion));
  if (const at::Tensor collected = scores_.drain(); collected.defined()) {
    std::vector<double> scores;
    std::vector<bool> second;
    const auto* row = collected.const_data_ptr<double>();
    for (int64_t i = 0; i < collected.size(0); ++i, row += 2) {
      if (row[1] == static_cast<double>(ignore_index_)) continue;
      scores.push_back(row[0]);
      second.push_back(row[1] == 1);
    }
    if (const auto area = area_under_roc(scores, second)) result["auc"] = *area;
  }
  if (!names_.empty()) {
    const auto classes = counts_of(confusion);
    for (size_t i = 0; i < classes.size(); ++i)
      result["per_class"][names_[i]] = class_scores(classes[i].hits, classes[i].predicted, classes[i].gold);
  }
  result["confusion"] = confusion;
  return result;
}

Json class_scores(int64_t hits, int64_t predicted, int64_t gold) {
  const Scores scores = scores_of({hits, predicted, gold});
  return Json{
      {"precision", scores.precision}, {"recall", scores.recall}, {"f1", scores.f1}, {"support", gold}};
}

Json averaged_scores(const std::vector<ClassCounts>& classes, bool absent_count) {
  ClassCounts all;
  Scores sum{}, weighted{};
  double num_present = 0;
  for (const ClassCounts& counts : classes) {
    all = {all.hits + counts.hits, all.predicted + counts.predicted, all.gold + counts.gold};
    if (!absent_count && counts.gold + counts.predicted == 0) continue;
    num_present += 1;
    const Scores scores = scores_of(counts);
    const auto gold = static_cast<double>(counts.gold);
    sum = {sum.precision + scores.precision, sum.recall + scores.recall, sum.f1 + scores.f1};
    weighted = {weighted.precision + gold * scores.precision, weighted.recall + gold * scores.recall,
                weighted.f1 + gold * scores.f1};
  }
  const Scores micro = scores_of(all);
  const auto num_gold = static_cast<double>(all.gold);
  return Json{{"micro_precision", micro.precision},
              {"micro_recall", micro.recall},
              {"micro_f1", micro.f1},
              {"macro_precision", ratio(sum.precision, num_present)},
              {"macro_recall", ratio(sum.recall, num_present)},
              {"macro_f1", ratio(sum.f1, num_present)},
              {"weighted_precision", ratio(weighted.precision, num_gold)},
              {"weighted_recall", ratio(weighted.recall, num_gold)},
              {"weighted_f1", ratio(weighted.f1, num_gold)}};
}

Json classification_metrics(const std::vector<std::vector<int64_t>>& confusion) {
  const std::vector<ClassCounts> classes = counts_of(confusion);
  double total = 0, correct = 0, products = 0, gold_squares = 0, predicted_squares = 0;
  for (const ClassCounts& counts : classes) {
    const auto gold = static_cast<double>(counts.gold), predicted = static_cast<double>(counts.predicted);
    total += gold;
    correct += static_cast<double>(counts.hits);
    products += gold * predicted;
    gold_squares += gold * gold;
    predicted_squares += predicted * predicted;
  }
  const double spread = std::sqrt((total * total - predicted_squares) * (total * total - gold_squares));
  Json result{{"accuracy", ratio(correct, total)},
              {"matthews_correlation", ratio(correct * total - products, spread)}};
  result.update(averaged_scores(classes, /*absent_count=*/false));
  return result;
}

}  // namespace finetune
