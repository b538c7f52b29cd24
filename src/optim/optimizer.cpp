#include "finetune/optim/optimizer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <set>

#include "finetune/core/error.h"
#include "finetune/kernels/ops.h"
#include "finetune/optim/update_rules.h"

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

namespace {

/// `adam_step` takes either no copies or one for each parameter, an empty one where there is none.
void complete_copies(std::vector<at::Tensor>& copies) {
  const auto copy =
      std::find_if(copies.begin(), copies.end(), [](const at::Tensor& t) { return t.defined(); });
  if (copy == copies.end()) {
    copies.clear();
    return;
  }
  const at::Tensor none = at::empty({0}, copy->options());
  for (at::Tensor& tensor : copies) {
    if (!tensor.defined()) tensor = none;
  }
}

std::vector<std::string> names_of(const std::vector<Parameter>& parameters) {
  std::vector<std::string> names;
  for (const Parameter& parameter : parameters) names.push_back(parameter.name);
  return names;
}

}  // namespace

Optimizer::Optimizer(const std::vector<Parameter>& parameters, const OptimizerConfig& config,
                     const std::vector<float>& rates, bool scales_loss, const ModelConfig& recipe)
    : config_(config), scaler_(parameters.front().value.device(), scales_loss) {
  const auto device = parameters.front().value.device();
  // By the names of all parameters, so that a frozen one neither hides a layer nor leaves a pattern
  // unmatched.
  const std::vector<UpdateRule> rules = update_rules(names_of(parameters), config);
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].frozen()) continue;
    add(parameters[i], rules[i].weight_decay,
        group_with(rules[i].rate_factor, recipe.unfreeze ? rules[i].depth : 0));
  }
  for (Group& group : groups_) {
    complete_copies(group.copies);
    group.steps =
        at::zeros({static_cast<int64_t>(group.names.size())}, at::TensorOptions(at::kFloat).device(device));
  }
  learn_down_to(depth_);
  if (recipe.ema) average_.emplace(parameters, recipe.ema->decay);
  applied_ = at::zeros({1}, at::TensorOptions(at::kLong).device(device));
  rates_ = at::tensor(at::ArrayRef<float>(rates), at::kFloat).to(device);
}

Optimizer::Group& Optimizer::group_with(double rate_factor, int64_t depth) {
  const auto found = std::find_if(groups_.begin(), groups_.end(), [&](const Group& group) {
    return group.rate_factor == rate_factor && group.depth == depth;
  });
  if (found != groups_.end()) return *found;
  return groups_.emplace_back(Group{.rate_factor = rate_factor, .depth = depth});
}

void Optimizer::learn_down_to(int64_t depth) {
  depth_ = depth;
  grads_.clear();
  for (const Group& group : groups_) {
    if (group.depth <= depth_) grads_.insert(grads_.end(), group.grads.begin(), group.grads.end());
  }
  if (grads_.empty()) {
    throw ConfigError(
        "model.unfreeze: found no parameter that learns from the start, expected the head's; take them out "
        "of "
        "model.freeze");
  }
}

void Optimizer::exchange_averages() {
  if (average_) average_->exchange(applied_);
}

void Optimizer::add(const Parameter& parameter, double weight_decay, Group& group) const {
  group.names.push_back(parameter.name);
  group.values.push_back(parameter.value);
  group.grads.push_back(parameter.grad);
  group.weight_decays.push_back(weight_decay);
  group.copies.push_back(parameter.copy);
  if (config_.type == OptimizerType::kSgd) return;
  const auto zeros = [&] { return at::zeros_like(parameter.value, at::MemoryFormat::Contiguous); };
  group.exp_avgs.push_back(zeros());
  group.exp_avg_sqs.push_back(zeros());
  if (config_.amsgrad) group.max_exp_avg_sqs.push_back(zeros());
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
  for (Group& group : groups_) {
    if (group.depth > depth_) continue;
    const at::Tensor rate =
        group.rate_factor == 1.0 ? stats.learning_rate : stats.learning_rate * group.rate_factor;
    if (config_.type == OptimizerType::kSgd) {
      sgd_step(group, rate, stats, scale);
    } else if (config_.amsgrad) {
      amsgrad_step(group, rate, stats, scale);
    } else {
      kernels::adam_step(group.values, group.grads, group.exp_avgs, group.exp_avg_sqs, group.copies,
                         group.steps, group.weight_decays, rate, scale, stats.nonfinite,
                         {.beta1 = config_.beta1,
                          .beta2 = config_.beta2,
                          .eps = config_.eps,
                          .decoupled = config_.type == OptimizerType::kAdamW});
    }
  }
  if (average_) average_->update(applied_, stats.nonfinite);
  applied_.add_(1).sub_(stats.nonfinite.to(at::kLong));
  scaler_.update(stats.nonfinite);
  stats.loss_scale = scaler_.scale();
  return stats;
}

void Optimizer::sgd_step(const Group& group, const at::Tensor& rate, const UpdateStats& stats,
                         const at::Tensor& scale) const {
  const auto keep = 1.0 - stats.nonfinite;
  for (size_t i = 0; i < group.values.size(); ++i) {
    const at::Tensor &value = group.values[i], &grad = group.grads[i];
    // A skipped update must not even multiply by a non-finite gradient: 0 * inf is not 0.
    const auto gradient = at::where(stats.nonfinite.to(at::kBool), at::zeros_like(grad), grad * scale);
    value.sub_((gradient + value * group.weight_decays[i]) * (rate * keep));
    grad.zero_();
    if (!group.copies.empty() && group.copies[i].numel() > 0) group.copies[i].copy_(value);
  }
  group.steps.add_(keep);
}

/// By torch's own fused kernels (torch.optim.AdamW(..., amsgrad=True, fused=True)): the variant is too rare
/// to be worth an operator. They take one weight decay a call, divide gradients by a scale, and count on
/// their caller for the steps.
void Optimizer::amsgrad_step(const Group& group, const at::Tensor& rate, const UpdateStats& stats,
                             const at::Tensor& scale) const {
  const bool decoupled = config_.type == OptimizerType::kAdamW;
  const at::Tensor divisor = scale.reciprocal();
  group.steps.add_(1.0 - stats.nonfinite);
  for (const double weight_decay : std::set<double>(group.weight_decays.begin(), group.weight_decays.end())) {
    std::vector<at::Tensor> values, grads, first, second, largest, steps;
    for (size_t i = 0; i < group.values.size(); ++i) {
      if (group.weight_decays[i] != weight_decay) continue;
      values.push_back(group.values[i]);
      grads.push_back(group.grads[i]);
      first.push_back(group.exp_avgs[i]);
      second.push_back(group.exp_avg_sqs[i]);
      largest.push_back(group.max_exp_avg_sqs[i]);
      steps.push_back(group.steps[static_cast<int64_t>(i)]);
    }
    const auto update = [&](auto kernel) {
      kernel(values, grads, first, second, largest, steps, rate, config_.beta1, config_.beta2, weight_decay,
             config_.eps, /*amsgrad=*/true, /*maximize=*/false, divisor, stats.nonfinite);
    };
    if (decoupled) {
      update([](auto&&... arguments) { at::_fused_adamw_(arguments...); });
    } else {
      update([](auto&&... arguments) { at::_fused_adam_(arguments...); });
    }
  }
  for (size_t i = 0; i < group.values.size(); ++i) {
    group.grads[i].zero_();
    if (!group.copies.empty() && group.copies[i].numel() > 0) group.copies[i].copy_(group.values[i]);
  }
}

void Optimizer::discard_gradients() {
  const at::NoGradGuard no_grad;
  for (at::Tensor& grad : grads_) grad.zero_();
}

std::vector<std::pair<std::string, at::Tensor>> Optimizer::state() const {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (const Group& group : groups_) {
    for (size_t i = 0; i < group.names.size(); ++i) {
      const std::string& name = group.names[i];
      if (!group.exp_avgs.empty()) {
        tensors.emplace_back("exp_avg/" + name, group.exp_avgs[i]);
        tensors.emplace_back("exp_avg_sq/" + name, group.exp_avg_sqs[i]);
        if (config_.amsgrad) tensors.emplace_back("max_exp_avg_sq/" + name, group.max_exp_avg_sqs[i]);
      }
      tensors.emplace_back("step/" + name, group.steps[static_cast<int64_t>(i)]);
    }
  }
  tensors.emplace_back("applied", applied_);
  for (auto& named : scaler_.state()) tensors.push_back(std::move(named));
  if (average_) {
    for (auto& named : average_->state()) tensors.push_back(std::move(named));
  }
  return tensors;
}

}  // namespace finetune
