#include "finetune/train/update.h"

#include <ATen/ATen.h>

#include "finetune/device/transfer.h"

namespace finetune {

Update::Update(const Classifier& model, const Task& task, Optimizer& optimizer, TrainMeter& meter,
               uint64_t seed)
    : model_(model),
      task_(task),
      optimizer_(optimizer),
      meter_(meter),
      rng_(upload(std::vector<int64_t>{static_cast<int64_t>(seed), 0}, meter.sums().device())),
      label_weight_(at::zeros({}, meter.sums().options())),
      divisor_(at::ones({}, meter.sums().options().dtype(at::kFloat))) {}

void Update::begin(int64_t step, double label_weight) {
  rng_.select(0, 1).fill_(step);
  label_weight_.fill_(label_weight);
  divisor_.fill_(label_weight > 0 ? label_weight : 1.0);
}

Update::Forward Update::forward(const Batch& given) const {
  Forward forward;
  const Batch batch = task_.shown(given, rng_);
  forward.logits = model_.forward(batch, {.training = true, .rng = rng_});
  forward.loss_sum = task_.loss_sum(forward.logits, batch.labels);
  return forward;
}

void Update::backward(const Forward& forward) {
  optimizer_.scaled(forward.loss_sum / divisor_).backward();
  meter_.add_loss(forward.loss_sum.detach());
}

UpdateStats Update::apply() {
  const UpdateStats stats = optimizer_.step();
  meter_.add_update(label_weight_, stats.grad_norm, stats.nonfinite, stats.learning_rate, stats.loss_scale);
  return stats;
}

void Update::discard() {
  optimizer_.discard_gradients();
  meter_.discard_update();
}

}  // namespace finetune
