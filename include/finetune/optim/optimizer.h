#pragma once

#include <ATen/core/Tensor.h>

#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "finetune/config/run_config.h"
#include "finetune/model/parameter.h"
#include "finetune/optim/weight_average.h"

namespace finetune {

/// What an update did, on the device.
struct UpdateStats {
  at::Tensor grad_norm;      ///< [] float32: before clipping
  at::Tensor nonfinite;      ///< [] float32: 1 where the gradients were not finite and the update was skipped
  at::Tensor learning_rate;  ///< [] float32
  at::Tensor loss_scale;     ///< [] float32, for the next update; undefined where the loss is not scaled
};

/// Keeps gradients within float16's range: the loss is multiplied by a scale that doubles after 2,000 updates
/// without an overflow and halves at one (Micikevicius et al. 2018, "Mixed precision training"; the constants
/// are torch.amp.GradScaler's). It lives on the device. A scaler that is off multiplies by nothing.
class LossScaler {
 public:
  LossScaler(c10::Device device, bool on);

  bool on() const { return scale_.defined(); }
  /// loss [] times the scale.
  at::Tensor scaled(const at::Tensor& loss) const { return on() ? loss * scale_ : loss; }
  /// [] float32; undefined where it is off.
  const at::Tensor& scale() const { return scale_; }
  /// overflow [] float32: 1 where an update found a gradient that is not finite.
  void update(const at::Tensor& overflow);

  /// State by name: "loss_scale", "loss_scale_growth"; none where it is off. The live tensors.
  std::vector<std::pair<std::string, at::Tensor>> state() const;

 private:
  at::Tensor scale_;   ///< [] float32
  at::Tensor growth_;  ///< [] int32: updates without an overflow since the last change
};

/// AdamW, Adam or SGD over all parameters that are not frozen: clipping by the global norm, the learning rate
/// by the device's own count of applied updates, times what `optimizer.groups` and `layerwise_lr_decay` make
/// of it for a parameter; non-finite gradients skipped. Nothing here waits for the device.
class Optimizer {
 public:
  /// `rates`: the learning rate by number of applied updates (see `learning_rates`). State is created beside
  /// each parameter. `scales_loss`: float16's gradients need it. `recipe`: `ema`, whether the weights'
  /// average is kept too; `unfreeze`, whether `learn_down_to` will be called.
  /// Throws `ConfigError` for a pattern of a group that is found in no parameter's name.
  Optimizer(const std::vector<Parameter>& parameters, const OptimizerConfig& config,
            const std::vector<float>& rates, bool scales_loss = false, const ModelConfig& recipe = {});

  /// What to call `backward` on instead of `loss` [].
  at::Tensor scaled(const at::Tensor& loss) const { return scaler_.scaled(loss); }

  /// Applies the gradients and clears them. The loss's scale is taken off them before clipping.
  UpdateStats step();

  /// Clears the gradients without applying them.
  void discard_gradients();

  /// From now on only parameters at most so far below the head learn (0: the head alone; see `depths_of`).
  /// The others keep value, moments and count.
  void learn_down_to(int64_t depth);

  /// Exchanges the weights and their averages, where those are kept.
  void exchange_averages();

  /// State by name: "exp_avg/NAME", "exp_avg_sq/NAME", "step/NAME", "applied", with `amsgrad`
  /// "max_exp_avg_sq/NAME", the scaler's, and the averages. Views of the live tensors.
  std::vector<std::pair<std::string, at::Tensor>> state() const;

 private:
  /// Parameters that learn at one rate, and begin to at one time.
  struct Group {
    double rate_factor = 1.0;
    int64_t depth = 0;
    std::vector<std::string> names = {};
    std::vector<at::Tensor> values = {}, grads = {}, exp_avgs = {}, exp_avg_sqs = {};
    std::vector<at::Tensor> max_exp_avg_sqs = {};  ///< empty without `amsgrad`
    std::vector<at::Tensor> copies = {};           ///< empty, or one a parameter: see kernels::adam_step
    std::vector<double> weight_decays = {};
    at::Tensor steps = {};  ///< [P] float32: updates of each parameter
  };

  Group& group_with(double rate_factor, int64_t depth);
  void add(const Parameter& parameter, double weight_decay, Group& group) const;
  void sgd_step(const Group& group, const at::Tensor& rate, const UpdateStats& stats,
                const at::Tensor& scale) const;
  void amsgrad_step(const Group& group, const at::Tensor& rate, const UpdateStats& stats,
                    const at::Tensor& scale) const;

  OptimizerConfig config_;
  std::vector<Group> groups_;
  int64_t depth_ = std::numeric_limits<int64_t>::max();  ///< of groups that learn
  std::vector<at::Tensor> grads_;                        ///< of the groups that learn
  LossScaler scaler_;
  std::optional<WeightAverage> average_;
  at::Tensor applied_;  ///< [1] int64: updates applied, which picks the learning rate
  at::Tensor rates_;    ///< [num_steps + 1] float32
};

/// While it lives, the weights are their averages, where the optimizer keeps such.
class AveragedWeights {
 public:
  explicit AveragedWeights(Optimizer& optimizer) : optimizer_(optimizer) { optimizer_.exchange_averages(); }
  ~AveragedWeights() { optimizer_.exchange_averages(); }
  AveragedWeights(const AveragedWeights&) = delete;
  AveragedWeights& operator=(const AveragedWeights&) = delete;

 private:
  Optimizer& optimizer_;
};

/// How far below the head each parameter of a model lies, by their names in its order: 0 for the head, 1 for
/// the last layer, one more for each below it, most for the embeddings.
std::vector<int64_t> depths_of(const std::vector<std::string>& names);

/// Whether weight decay leaves a parameter alone: its name ends with one of the patterns.
bool matches_any(const std::string& name, const std::vector<std::string>& patterns);

}  // namespace finetune
