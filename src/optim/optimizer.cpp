#include "finetune/optim/optimizer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <set>

#include "finetune/kernels/ops.h"

namespace finetune {

bool matches_any(const std::string& name, const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    if (name.size() >= pattern.size() &&
        name.compare(name.size() - pattern.size(), pattern.size(), pattern) == 0) {
      return true;
    }
  }
  return false;
}

LossScaler::LossScaler(c10::Device device, bool on) {
  if (!on) return;
  scale_ = at::full({}, 65536.0, at::TensorOptions(at::kFloat).device(device));
  growth_ = at::zeros({}, at::TensorOptions(at::kInt).device(device));
}

void LossScaler::update(const at::Tensor& overflow) {
  if (!on()) return;
  at::_amp_update_scale_(scale_, growth_, overflow, /*scale_growth_factor=*/2.0,
                         /*scale_backoff_factor=*/0.5, /*growth_interval=*/2000);
}

std::vector<std::pair<std::string, at::Tensor>> LossScaler::state() const {
  if (!on()) return {};
  return {{"loss_scale", scale_}, {"loss_scale_growth", growth_}};
}

Optimizer::Optimizer(const std::vector<Parameter>& parameters, const OptimizerConfig& config,
                     const std::vector<float>& rates, bool scales_loss)
    : config_(config), scaler_(parameters.front().value.device(), scales_loss) {
  const auto device = parameters.front().value.device();
  for (const Parameter& parameter : parameters) {
    names_.push_back(parameter.name);
    values_.push_back(parameter.value);
    grads_.push_back(parameter.grad);
    weight_decays_.push_back(matches_any(parameter.name, config.no_decay) ? 0.0 : config.weight_decay);
    copies_.push_back(parameter.copy.defined() ? parameter.copy : at::Tensor());
    if (config.type == OptimizerType::kSgd) continue;
    exp_avgs_.push_back(at::zeros_like(parameter.value, at::MemoryFormat::Contiguous));
    exp_avg_sqs_.push_back(at::zeros_like(parameter.value, at::MemoryFormat::Contiguous));
    if (config.amsgrad)
      max_exp_avg_sqs_.push_back(at::zeros_like(parameter.value, at::MemoryFormat::Contiguous));
  }
  complete_copies();
  steps_ = at::zeros({static_cast<int64_t>(names_.size())}, at::TensorOptions(at::kFloat).device(device));
  applied_ = at::zeros({1}, at::TensorOptions(at::kLong).device(device));
  rates_ = at::tensor(at::ArrayRef<float>(rates), at::kFloat).to(device);
}

/// `adam_step` takes either no copies or one for each parameter, an empty one where there is none.
void Optimizer::complete_copies() {
  const auto copy =
      std::find_if(copies_.begin(), copies_.end(), [](const at::Tensor& t) { return t.defined(); });
  if (copy == copies_.end()) {
    copies_.clear();
    return;
  }
  const at::Tensor none = at::empty({0}, copy->options());
  for (at::Tensor& tensor : copies_) {
    if (!tensor.defined()) tensor = none;
  }
}

UpdateStats Optimizer::step() {
  const at::NoGradGuard no_grad;
  UpdateStats stats;
  stats.grad_norm = at::linalg_vector_norm(at::stack(at::_foreach_norm(grads_, 2.0)));
  if (scaler_.on()) stats.grad_norm = stats.grad_norm / scaler_.scale();
  stats.nonfinite = at::isfinite(stats.grad_norm).logical_not().to(at::kFloat);
  const auto position = at::clamp_max(applied_, rates_.size(0) - 1);
  stats.learning_rate = rates_.index_select(0, position).squeeze(0);

  // torch.nn.utils.clip_grad_norm_: the factor is max_norm / (norm + 1e-6), at most 1.
  auto scale = config_.max_grad_norm > 0
                   ? at::clamp_max(config_.max_grad_norm / (stats.grad_norm + 1e-6), 1.0)
                   : at::ones_like(stats.grad_norm);
  if (scaler_.on()) scale = scale / scaler_.scale();
  if (config_.type == OptimizerType::kSgd) {
    const auto keep = 1.0 - stats.nonfinite;
    const auto rate = stats.learning_rate * keep;
    for (size_t i = 0; i < values_.size(); ++i) {
      // A skipped update must not even multiply by a non-finite gradient: 0 * inf is not 0.
      const auto gradient =
          at::where(stats.nonfinite.to(at::kBool), at::zeros_like(grads_[i]), grads_[i] * scale);
      values_[i].sub_((gradient + values_[i] * weight_decays_[i]) * rate);
      grads_[i].zero_();
      if (!copies_.empty() && copies_[i].numel() > 0) copies_[i].copy_(values_[i]);
    }
    steps_.add_(keep);
  } else if (config_.amsgrad) {
    amsgrad_step(stats, scale);
  } else {
    kernels::adam_step(values_, grads_, exp_avgs_, exp_avg_sqs_, copies_, steps_, weight_decays_,
                       stats.learning_rate, scale, stats.nonfinite,
                       {.beta1 = config_.beta1,
                        .beta2 = config_.beta2,
                        .eps = config_.eps,
                        .decoupled = config_.type == OptimizerType::kAdamW});
  }
  applied_.add_(1).sub_(stats.nonfinite.to(at::kLong));
  scaler_.update(stats.nonfinite);
  stats.loss_scale = scaler_.scale();
  return stats;
}

/// By torch's own fused kernels (torch.optim.AdamW(..., amsgrad=True, fused=True)): the variant is too rare
/// to be worth an operator. They take one weight decay a call, divide gradients by a scale, and count on
/// their caller for the steps.
void Optimizer::amsgrad_step(const UpdateStats& stats, const at::Tensor& scale) {
  const bool decoupled = config_.type == OptimizerType::kAdamW;
  const at::Tensor divisor = scale.reciprocal();
  steps_.add_(1.0 - stats.nonfinite);
  for (const double weight_decay : std::set<double>(weight_decays_.begin(), weight_decays_.end())) {
    std::vector<at::Tensor> values, grads, first, second, largest, steps;
    for (size_t i = 0; i < values_.size(); ++i) {
      if (weight_decays_[i] != weight_decay) continue;
      values.push_back(values_[i]);
      grads.push_back(grads_[i]);
      first.push_back(exp_avgs_[i]);
      second.push_back(exp_avg_sqs_[i]);
      largest.push_back(max_exp_avg_sqs_[i]);
      steps.push_back(steps_[static_cast<int64_t>(i)]);
    }
    const auto update = [&](auto kernel) {
      kernel(values, grads, first, second, largest, steps, stats.learning_rate, config_.beta1, config_.beta2,
             weight_decay, config_.eps, /*amsgrad=*/true, /*maximize=*/false, divisor, stats.nonfinite);
    };
    if (decoupled) {
      update([](auto&&... arguments) { at::_fused_adamw_(arguments...); });
    } else {
      update([](auto&&... arguments) { at::_fused_adam_(arguments...); });
    }
  }
  for (size_t i = 0; i < values_.size(); ++i) {
    grads_[i].zero_();
    if (!copies_.empty() && copies_[i].numel() > 0) copies_[i].copy_(values_[i]);
  }
}

void Optimizer::discard_gradients() {
  const at::NoGradGuard no_grad;
  for (at::Tensor& grad : grads_) grad.zero_();
}

std::vector<std::pair<std::string, at::Tensor>> Optimizer::state() const {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (size_t i = 0; i < names_.size(); ++i) {
    if (!exp_avgs_.empty()) {
      tensors.emplace_back("exp_avg/" + names_[i], exp_avgs_[i]);
      tensors.emplace_back("exp_avg_sq/" + names_[i], exp_avg_sqs_[i]);
      if (config_.amsgrad) tensors.emplace_back("max_exp_avg_sq/" + names_[i], max_exp_avg_sqs_[i]);
    }
    tensors.emplace_back("step/" + names_[i], steps_[static_cast<int64_t>(i)]);
  }
  tensors.emplace_back("applied", applied_);
  for (auto& named : scaler_.state()) tensors.push_back(std::move(named));
  return tensors;
}

}  // namespace finetune
