#include "finetune/metrics/language_model.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>

namespace finetune {

LanguageModelMeter::LanguageModelMeter(c10::Device device)
    : loss_(device), hits_(at::zeros({}, at::TensorOptions(at::kLong).device(device))) {}

void LanguageModelMeter::add(const at::Tensor& loss_sum, const at::Tensor& logits, const at::Tensor& labels,
                             double label_weight) {
  const at::NoGradGuard no_grad;
  loss_.add(loss_sum, label_weight);
  num_labels_ += label_weight;
  hits_.add_(logits.argmax(1).eq(labels).sum());
}

Json LanguageModelMeter::drain() {
  const double loss = loss_.drain();
  const auto hits = static_cast<double>(hits_.item<int64_t>());
  return Json{
      {"loss", loss}, {"perplexity", std::exp(loss)}, {"accuracy", hits / std::max(num_labels_, 1.0)}};
}

}  // namespace finetune
