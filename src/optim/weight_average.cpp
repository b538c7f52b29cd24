#include "finetune/optim/weight_average.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace finetune {

WeightAverage::WeightAverage(const std::vector<Parameter>& parameters, double decay) : decay_(decay) {
  for (const Parameter& parameter : parameters) {
    if (parameter.frozen()) continue;
    parameters_.push_back(parameter);
    averages_.push_back(at::zeros_like(parameter.value, at::MemoryFormat::Contiguous));
  }
}

void WeightAverage::update(const at::Tensor& applied, const at::Tensor& nonfinite) {
  const at::NoGradGuard no_grad;
  const auto share =
      at::where(applied.eq(0).squeeze(0), at::ones_like(nonfinite), at::full_like(nonfinite, 1.0 - decay_));
  const auto weight = share * (1.0 - nonfinite);
  for (size_t i = 0; i < averages_.size(); ++i) averages_[i].lerp_(parameters_[i].value, weight);
}

void WeightAverage::exchange(const at::Tensor& applied) {
  const at::NoGradGuard no_grad;
  const auto any = applied.gt(0).squeeze(0);
  for (size_t i = 0; i < averages_.size(); ++i) {
    const auto average = at::where(any, averages_[i], parameters_[i].value);
    averages_[i].copy_(parameters_[i].value);
    parameters_[i].value.copy_(average);
  }
  refresh_copies(parameters_);
}

std::vector<std::pair<std::string, at::Tensor>> WeightAverage::state() const {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (size_t i = 0; i < averages_.size(); ++i) {
    tensors.emplace_back("ema/" + parameters_[i].name, averages_[i]);
  }
  return tensors;
}

}  // namespace finetune
