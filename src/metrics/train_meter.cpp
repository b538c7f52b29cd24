#include "finetune/metrics/train_meter.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace finetune {

TrainMeter::TrainMeter(c10::Device device)
    : sums_(at::zeros({kNumSums}, at::TensorOptions(at::kDouble).device(device))) {}

at::Tensor TrainMeter::slot(Sum sum) const { return sums_.select(0, sum); }

void TrainMeter::add_loss(const at::Tensor& loss_sum) {
  const at::NoGradGuard no_grad;
  slot(kUpdateLoss).add_(loss_sum);
}

void TrainMeter::discard_update() { slot(kUpdateLoss).zero_(); }

void TrainMeter::add_update(const at::Tensor& label_weight, const at::Tensor& grad_norm,
                            const at::Tensor& nonfinite, const at::Tensor& learning_rate,
                            const at::Tensor& loss_scale) {
  const at::NoGradGuard no_grad;
  for (const Sum sum : {kLoss, kEpochLoss}) slot(sum).add_(slot(kUpdateLoss));
  for (const Sum sum : {kWeight, kEpochWeight}) slot(sum).add_(label_weight);
  slot(kUpdateLoss).zero_();
  slot(kGradNorm).copy_(grad_norm);
  slot(kLearningRate).copy_(learning_rate);
  slot(kNonfinite).add_(nonfinite);
  if (loss_scale.defined()) slot(kLossScale).copy_(loss_scale);
}

TrainMeter::Values TrainMeter::values(const at::Tensor& host_sums) {
  const auto* sum = host_sums.const_data_ptr<double>();
  const auto mean = [](double total, double weight) { return weight > 0 ? total / weight : 0.0; };
  return {.loss = mean(sum[kLoss], sum[kWeight]),
          .epoch_loss = mean(sum[kEpochLoss], sum[kEpochWeight]),
          .grad_norm = sum[kGradNorm],
          .learning_rate = sum[kLearningRate],
          .nonfinite = static_cast<int64_t>(sum[kNonfinite]),
          .loss_scale = sum[kLossScale]};
}

void TrainMeter::begin_interval() {
  for (const Sum sum : {kLoss, kWeight, kNonfinite}) slot(sum).zero_();
}

void TrainMeter::begin_epoch() {
  slot(kEpochLoss).zero_();
  slot(kEpochWeight).zero_();
}

}  // namespace finetune
