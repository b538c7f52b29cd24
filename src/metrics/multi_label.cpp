#include "finetune/metrics/multi_label.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "finetune/metrics/classification.h"
#include "finetune/metrics/scores.h"

namespace finetune {

MultiLabelMeter::MultiLabelMeter(std::vector<std::string> names, double threshold, c10::Device device)
    : names_(std::move(names)), threshold_(threshold), loss_(device) {
  const auto num_classes = static_cast<int64_t>(names_.size());
  counts_ = at::zeros({3 * num_classes + 2}, at::TensorOptions(at::kLong).device(device));
}

void MultiLabelMeter::add(const at::Tensor& loss_sum, const at::Tensor& logits, const at::Tensor& labels,
                          double label_weight) {
  const at::NoGradGuard no_grad;
  loss_.add(loss_sum, label_weight);
  const auto said = logits.to(at::kDouble).ge(threshold_), holds = labels.gt(0.5);
  const auto right = said.eq(holds).all(1);
  counts_.add_(at::cat({said.logical_and(holds).sum(0), said.sum(0), holds.sum(0), right.sum().view({1}),
                        at::ones_like(right, at::kLong).sum().view({1})}));
  scores_.add(at::stack({logits.detach(), labels}, 1));
}

Json MultiLabelMeter::drain() {
  const size_t num_classes = names_.size();
  const auto host = counts_.cpu();
  const auto* counts = host.const_data_ptr<int64_t>();
  std::vector<ClassCounts> classes;
  for (size_t c = 0; c < num_classes; ++c)
    classes.push_back({counts[c], counts[num_classes + c], counts[2 * num_classes + c]});
  const auto num_right = static_cast<double>(counts[3 * num_classes]);
  const auto num_rows = static_cast<double>(counts[3 * num_classes + 1]);

  Json result{{"loss", loss_.drain()}, {"accuracy", num_rows > 0 ? num_right / num_rows : 0.0}};
  result.update(averaged_scores(classes, /*absent_count=*/true));
  const at::Tensor collected = scores_.drain();
  double areas = 0, num_areas = 0;
  for (size_t c = 0; c < num_classes; ++c) {
    Json row = class_scores(classes[c].hits, classes[c].predicted, classes[c].gold);
    std::vector<double> scores;
    std::vector<bool> holds;
    const int64_t rows = collected.defined() ? collected.size(0) : 0;
    for (int64_t i = 0; i < rows; ++i) {
      const float* pair = collected.const_data_ptr<float>() + static_cast<size_t>(2 * i) * num_classes;
      scores.push_back(pair[c]);
      holds.push_back(pair[num_classes + c] > 0.5f);
    }
    if (const auto area = area_under_roc(scores, holds)) {
      row["auc"] = *area;
      areas += *area;
      num_areas += 1;
    }
    result["per_class"][names_[c]] = std::move(row);
  }
  if (num_areas > 0) result["auc"] = areas / num_areas;
  return result;
}

}  // namespace finetune
