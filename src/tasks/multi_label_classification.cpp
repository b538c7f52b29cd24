#include <ATen/ATen.h>

#include <cmath>

#include "class_loss.h"
#include "finetune/metrics/multi_label.h"
#include "tasks.h"

namespace finetune {
namespace {

/// Any number of classes a row: one yes or no for each. Every one of them weighs 1 in the loss, whatever
/// pos_weight says, as in PyTorch's BCEWithLogitsLoss.
class MultiLabelClassification final : public Task {
 public:
  MultiLabelClassification(const TaskConfig& config, LabelMap labels)
      : Task(config, std::move(labels)),
        pos_weight_(config.pos_weight.values),
        least_logit_(std::log(config.threshold / (1 - config.threshold))) {}

  HeadConfig head() const override { return {.kind = HeadKind::kSequence, .num_outputs = labels_.size()}; }
  std::string problem_type() const override { return "multi_label_classification"; }

  std::vector<double> label_weights(const DeviceDataset& rows) const override {
    return std::vector<double>(static_cast<size_t>(rows.num_rows()), static_cast<double>(labels_.size()));
  }

  at::Tensor loss_sum(const at::Tensor& logits, const at::Tensor& labels) const override {
    const at::Tensor& weights = pos_weight_.on(logits.device());
    return at::binary_cross_entropy_with_logits(logits, labels, std::nullopt,
                                                weights.defined() ? std::optional(weights) : std::nullopt,
                                                at::Reduction::Sum);
  }

  std::unique_ptr<Meter> make_meter(c10::Device device) const override {
    return std::make_unique<MultiLabelMeter>(labels_.names(), least_logit_, device);
  }

  Json answer(const Row&, const RowLogits& logits) const override {
    Json holding = Json::array(), scores = Json::object();
    for (int64_t id = 0; id < labels_.size(); ++id) {
      const auto logit = static_cast<double>(logits.values[id]);
      if (logit >= least_logit_) holding.push_back(labels_.name(id));
      scores[labels_.name(id)] = 1 / (1 + std::exp(-logit));
    }
    return Json{{"labels", std::move(holding)}, {"scores", std::move(scores)}};
  }

 private:
  DeviceVector pos_weight_;
  double least_logit_;  ///< from which on a class is said to hold
};

}  // namespace

std::unique_ptr<Task> make_multi_label_classification(const TaskConfig& config, LabelMap labels) {
  return std::make_unique<MultiLabelClassification>(config, std::move(labels));
}

}  // namespace finetune
