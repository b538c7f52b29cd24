#include <ATen/core/grad_mode.h>

#include "../operators.h"
#include "finetune/kernels/ops.h"

namespace finetune::kernels {

void adam_step(const std::vector<at::Tensor>& params, const std::vector<at::Tensor>& grads,
               const std::vector<at::Tensor>& exp_avgs, const std::vector<at::Tensor>& exp_avg_sqs,
               const std::vector<at::Tensor>& copies, const at::Tensor& steps,
               const std::vector<double>& weight_decays, const at::Tensor& learning_rate,
               const at::Tensor& grad_scale, const at::Tensor& skip, const AdamOptions& options) {
  if (params.empty()) return;
  const at::NoGradGuard no_grad;
  operators::adam_step(params, grads, exp_avgs, exp_avg_sqs, copies, steps, weight_decays, learning_rate,
                       grad_scale, skip, options.beta1, options.beta2, options.eps, options.decoupled);
}

}  // namespace finetune::kernels
