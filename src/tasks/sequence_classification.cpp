#include "sequence_classification.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace finetune {
namespace {

class SequenceClassification final : public Task {
 public:
  SequenceClassification(const TaskConfig& config, LabelMap labels)
      : Task(std::move(labels)), config_(config) {}

  HeadConfig head() const override { return {.kind = HeadKind::kSequence, .num_outputs = labels_.size()}; }

  std::vector<double> label_weights(const std::vector<int64_t>& labels) const override {
    std::vector<double> weights;
    weights.reserve(labels.size());
    for (const int64_t label : labels) weights.push_back(label == config_.ignore_index ? 0.0 : 1.0);
    return weights;
  }

  at::Tensor loss_sum(const at::Tensor& logits, const at::Tensor& labels) const override {
    return at::cross_entropy_loss(logits, labels, /*weight=*/{}, at::Reduction::Sum, config_.ignore_index,
                                  config_.label_smoothing);
  }

  ClassificationMeter make_meter(c10::Device device) const override {
    return {labels_.size(), config_.ignore_index, device};
  }

  Json answer(const float* logits) const override {
    const auto num_labels = static_cast<size_t>(labels_.size());
    const float* best = std::max_element(logits, logits + num_labels);
    std::vector<double> scores(num_labels);
    double total = 0;
    for (size_t i = 0; i < num_labels; ++i)
      total += scores[i] = std::exp(static_cast<double>(logits[i]) - static_cast<double>(*best));
    Json by_label = Json::object();
    for (size_t i = 0; i < num_labels; ++i)
      by_label[labels_.name(static_cast<int64_t>(i))] = scores[i] / total;
    const auto winner = static_cast<size_t>(best - logits);
    return Json{{"label", labels_.name(static_cast<int64_t>(winner))},
                {"score", scores[winner] / total},
                {"scores", std::move(by_label)}};
  }

 private:
  TaskConfig config_;
};

}  // namespace

std::unique_ptr<Task> make_sequence_classification(const TaskConfig& config, LabelMap labels) {
  return std::make_unique<SequenceClassification>(config, std::move(labels));
}

}  // namespace finetune
