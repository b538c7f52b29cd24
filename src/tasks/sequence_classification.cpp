#include <algorithm>

#include "class_loss.h"
#include "finetune/metrics/classification.h"
#include "tasks.h"

namespace finetune {
namespace {

class SequenceClassification final : public Task {
 public:
  SequenceClassification(const TaskConfig& config, LabelMap labels)
      : Task(config, std::move(labels)), loss_(config) {}

  HeadConfig head() const override { return {.kind = HeadKind::kSequence, .num_outputs = labels_.size()}; }
  std::string problem_type() const override { return "single_label_classification"; }

  std::vector<double> label_weights(const DeviceDataset& rows) const override {
    std::vector<double> weights;
    weights.reserve(rows.host_labels.size());
    for (const int64_t label : rows.host_labels) weights.push_back(loss_.weight(label));
    return weights;
  }

  at::Tensor loss_sum(const at::Tensor& logits, const at::Tensor& labels) const override {
    return loss_.sum(logits, labels);
  }

  std::unique_ptr<Meter> make_meter(c10::Device device) const override {
    return std::make_unique<ClassificationMeter>(labels_.size(), config_.ignore_index, device,
                                                 labels_.names());
  }

  Json answer(const Row&, const RowLogits& logits) const override {
    const std::vector<double> scores = probabilities(logits.values, labels_.size());
    Json by_label = Json::object();
    for (size_t i = 0; i < scores.size(); ++i) by_label[labels_.name(static_cast<int64_t>(i))] = scores[i];
    const auto winner = std::max_element(logits.values, logits.values + labels_.size()) - logits.values;
    return Json{{"label", labels_.name(winner)},
                {"score", scores[static_cast<size_t>(winner)]},
                {"scores", std::move(by_label)}};
  }

 private:
  ClassLoss loss_;
};

}  // namespace

std::unique_ptr<Task> make_sequence_classification(const TaskConfig& config, LabelMap labels) {
  return std::make_unique<SequenceClassification>(config, std::move(labels));
}

}  // namespace finetune
