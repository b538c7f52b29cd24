#include "finetune/metrics/regression.h"

#include <ATen/ATen.h>

#include <cmath>

#include "tasks.h"

namespace finetune {
namespace {

/// One number a row, learned by its squared error. A row without a number adds nothing.
class Regression final : public Task {
 public:
  Regression(const TaskConfig& config, LabelMap labels) : Task(config, std::move(labels)) {}

  HeadConfig head() const override { return {.kind = HeadKind::kSequence, .num_outputs = 1}; }
  std::string problem_type() const override { return "regression"; }

  std::vector<double> label_weights(const DeviceDataset& rows) const override {
    std::vector<double> weights;
    weights.reserve(rows.host_values.size());
    for (const float value : rows.host_values) weights.push_back(std::isnan(value) ? 0.0 : 1.0);
    return weights;
  }

  at::Tensor loss_sum(const at::Tensor& logits, const at::Tensor& labels) const override {
    const auto known = labels.eq(labels);
    const auto target = at::where(known, labels, logits.detach());
    return (logits - target).square().sum();
  }

  std::unique_ptr<Meter> make_meter(c10::Device device) const override {
    return std::make_unique<RegressionMeter>(device);
  }

  Json answer(const Row&, const RowLogits& logits) const override {
    return Json{{"value", static_cast<double>(logits.values[0])}};
  }
};

}  // namespace

std::unique_ptr<Task> make_regression(const TaskConfig& config, LabelMap labels) {
  return std::make_unique<Regression>(config, std::move(labels));
}

}  // namespace finetune
