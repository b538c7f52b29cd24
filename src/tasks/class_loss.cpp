#include "class_loss.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "finetune/device/transfer.h"

namespace finetune {

DeviceVector::DeviceVector(const std::vector<double>& values) : values_(values.begin(), values.end()) {}

const at::Tensor& DeviceVector::on(c10::Device device) const {
  const bool there = tensor_.defined() && tensor_.device() == device;
  if (!values_.empty() && !there) tensor_ = upload(values_, device);
  return tensor_;
}

ClassLoss::ClassLoss(const TaskConfig& config) : config_(config), weights_(config.class_weights.values) {}

double ClassLoss::weight(int64_t label) const {
  if (label == config_.ignore_index) return 0;
  const auto& weights = config_.class_weights.values;
  return weights.empty() ? 1.0 : static_cast<double>(static_cast<float>(weights[static_cast<size_t>(label)]));
}

at::Tensor ClassLoss::sum(const at::Tensor& logits, const at::Tensor& labels) const {
  const at::Tensor& weights = weights_.on(logits.device());
  if (config_.loss == LossType::kCrossEntropy) {
    return at::cross_entropy_loss(logits, labels, weights.defined() ? std::optional(weights) : std::nullopt,
                                  at::Reduction::Sum, config_.ignore_index, config_.label_smoothing);
  }
  const auto counts = labels.ne(config_.ignore_index);
  const auto classes = at::where(counts, labels, at::zeros_like(labels));
  const auto log_probability = at::log_softmax(logits, -1).gather(1, classes.unsqueeze(1)).squeeze(1);
  constexpr double kLeast = 1e-12;  // the power's derivative has no end at 0
  const auto missing = (1 - log_probability.exp()).clamp_min(kLeast).pow(config_.focal_gamma);
  auto losses = -missing * log_probability;
  if (weights.defined()) losses = losses * weights.index_select(0, classes);
  return at::where(counts, losses, at::zeros_like(losses)).sum();
}

std::vector<double> probabilities(const float* logits, int64_t num_labels) {
  std::vector<double> scores(static_cast<size_t>(num_labels));
  const double best = static_cast<double>(*std::max_element(logits, logits + num_labels));
  double total = 0;
  for (size_t i = 0; i < scores.size(); ++i)
    total += scores[i] = std::exp(static_cast<double>(logits[i]) - best);
  for (double& score : scores) score /= total;
  return scores;
}

}  // namespace finetune
