#include "adam.cuh"

#include "kernels.h"
#include "launch.h"
#include "operands.h"

namespace finetune::kernels::cuda {
namespace {

constexpr auto kOp = "adam_step";

float* adam_data(const at::Tensor& tensor, const at::Tensor& param, const char* name) {
  TORCH_CHECK(tensor.scalar_type() == at::kFloat && tensor.is_non_overlapping_and_dense() &&
                  tensor.sizes() == param.sizes() && tensor.strides() == param.strides(),
              kOp, ": ", name, " must be a dense float32 tensor laid out as its parameter of shape ",
              param.sizes(), ", found ", tensor.scalar_type(), " of shape ", tensor.sizes());
  return tensor.mutable_data_ptr<float>();
}

uint16_t* copy_data(at::TensorList copies, size_t index, const at::Tensor& param) {
  if (copies.empty() || copies[index].numel() == 0) return nullptr;
  const at::Tensor& copy = copies[index];
  TORCH_CHECK((copy.scalar_type() == at::kBFloat16 || copy.scalar_type() == at::kHalf) &&
                  copy.scalar_type() == copies[0].scalar_type() && copy.sizes() == param.sizes() &&
                  copy.strides() == param.strides(),
              kOp, ": a copy must be bfloat16 or float16 as all others, laid out as its parameter of shape ",
              param.sizes(), ", found ", copy.scalar_type(), " of shape ", copy.sizes());
  return static_cast<uint16_t*>(copy.mutable_data_ptr());
}

}  // namespace

void adam_step(at::TensorList params, at::TensorList grads, at::TensorList exp_avgs,
               at::TensorList exp_avg_sqs, at::TensorList copies, const at::Tensor& steps,
               at::ArrayRef<double> weight_decays, const at::Tensor& learning_rate,
               const at::Tensor& grad_scale, const at::Tensor& skip, double beta1, double beta2, double eps,
               bool decoupled) {
  const size_t num_params = params.size();
  const c10::DeviceGuard guard(steps.device());
  const auto rate = span<const float>(learning_rate, 1, kOp, "learning_rate");
  const auto skipped = span<const float>(skip, 1, kOp, "skip");
  const at::Tensor corrections = at::empty({static_cast<int64_t>(num_params), 2}, steps.options());
  auto* correction_data = reinterpret_cast<AdamCorrection*>(corrections.mutable_data_ptr<float>());
  const auto count = static_cast<int64_t>(num_params);
  launch(AdamPrepare{.steps = span<float>(steps, count, kOp, "steps"),
                     .learning_rate = rate,
                     .skip = skipped,
                     .corrections = {correction_data, count},
                     .beta1 = beta1,
                     .beta2 = beta2});
  for (size_t first = 0; first < num_params; first += AdamUpdate::kMostTensors) {
    AdamUpdate update = {};
    update.first_tensor = static_cast<int>(first);
    update.copies_are_bfloat16 = !copies.empty() && copies[0].scalar_type() == at::kBFloat16;
    update.decoupled = decoupled;
    update.corrections = {correction_data, count};
    update.learning_rate = rate;
    update.grad_scale = span<const float>(grad_scale, 1, kOp, "grad_scale");
    update.skip = skipped;
    update.first_weight = static_cast<float>(1.0 - beta1);
    update.second_keep = static_cast<float>(beta2);
    update.second_weight = static_cast<float>(1.0 - beta2);
    update.eps = static_cast<float>(eps);
    for (size_t i = first; i < num_params && i < first + AdamUpdate::kMostTensors; ++i) {
      update.add({adam_data(params[i], params[i], "parameter"), adam_data(grads[i], params[i], "gradient"),
                  adam_data(exp_avgs[i], params[i], "exp_avg"),
                  adam_data(exp_avg_sqs[i], params[i], "exp_avg_sq"), copy_data(copies, i, params[i]),
                  params[i].numel(), weight_decays[i]});
    }
    launch(update);
  }
}

}  // namespace finetune::kernels::cuda
