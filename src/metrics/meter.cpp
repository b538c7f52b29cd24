#include "finetune/metrics/meter.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace finetune {

LossMean::LossMean(c10::Device device)
    : sum_(at::zeros({1}, at::TensorOptions(at::kDouble).device(device))) {}

void LossMean::add(const at::Tensor& loss_sum, double label_weight) {
  const at::NoGradGuard no_grad;
  label_weight_ += label_weight;
  sum_.add_(loss_sum);
}

double LossMean::drain() {
  const double sum = sum_.cpu().item<double>();
  return label_weight_ > 0 ? sum / label_weight_ : 0.0;
}

at::Tensor Collected::drain() {
  if (parts_.empty()) return {};
  return at::cat(parts_).cpu();
}

}  // namespace finetune
