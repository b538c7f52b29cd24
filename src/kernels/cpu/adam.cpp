#include <cmath>
#include <vector>

#include "kernels.h"
#include "rows.h"

namespace finetune::kernels::cpu {
namespace {

/// Elements that a thread takes at least.
constexpr int64_t kGrain = 1 << 14;

/// A parameter with all that belongs to it.
struct AdamTensor {
  float* param;
  float* grad;
  float* exp_avg;
  float* exp_avg_sq;
  void* copy;  ///< in low precision, or null
  int64_t count;
  int64_t first;  ///< elements of the parameters before it
  AdamScalars scalars;
};

float* adam_data(const at::Tensor& tensor, const at::Tensor& param, const char* name) {
  TORCH_CHECK(tensor.scalar_type() == at::kFloat && tensor.is_non_overlapping_and_dense() &&
                  tensor.sizes() == param.sizes() && tensor.strides() == param.strides(),
              "adam_step: ", name, " must be a dense float32 tensor laid out as its parameter of shape ",
              param.sizes(), ", found ", tensor.scalar_type(), " of shape ", tensor.sizes());
  return tensor.mutable_data_ptr<float>();
}

/// A parameter's low-precision copy; null where it has none (a tensor without elements).
void* copy_data(const at::Tensor& copy, const at::Tensor& param) {
  if (copy.numel() == 0) return nullptr;
  TORCH_CHECK(copy.sizes() == param.sizes() && copy.strides() == param.strides(),
              "adam_step: a copy must be laid out as its parameter of shape ", param.sizes(),
              ", found shape ", copy.sizes());
  return copy.mutable_data_ptr();
}

/// The scalars of one update; the arithmetic on them is torch.optim's, in double precision.
AdamScalars adam_scalars(double learning_rate, double weight_decay, double step, float grad_scale,
                         double beta1, double beta2, double eps, bool decoupled) {
  AdamScalars scalars;
  scalars.grad_scale = grad_scale;
  scalars.first_weight = static_cast<float>(1.0 - beta1);
  scalars.second_keep = static_cast<float>(beta2);
  scalars.second_weight = static_cast<float>(1.0 - beta2);
  scalars.eps = static_cast<float>(eps);
  scalars.decay_factor = decoupled ? static_cast<float>(1.0 - learning_rate * weight_decay) : 1.0f;
  scalars.l2 = decoupled ? 0.0f : static_cast<float>(weight_decay);
  scalars.step_size = static_cast<float>(learning_rate / (1.0 - std::pow(beta1, step)));
  scalars.correction2_sqrt = static_cast<float>(std::sqrt(1.0 - std::pow(beta2, step)));
  return scalars;
}

/// f(tensor, offset, count) over all elements of all parameters, threaded in parts of equal size whatever the
/// tensors' sizes.
template <typename F>
void parallel_elements(const std::vector<AdamTensor>& tensors, const F& f) {
  const int64_t total = tensors.back().first + tensors.back().count;
  parallel_for(0, total, kGrain, [&](int64_t begin, int64_t end) {
    auto tensor =
        std::upper_bound(tensors.begin(), tensors.end(), begin,
                         [](int64_t element, const AdamTensor& t) { return element < t.first + t.count; });
    for (; tensor != tensors.end() && tensor->first < end; ++tensor) {
      const int64_t offset = std::max(begin - tensor->first, int64_t{0});
      f(*tensor, offset, std::min(end - tensor->first, tensor->count) - offset);
    }
  });
}

}  // namespace

void adam_step(at::TensorList params, at::TensorList grads, at::TensorList exp_avgs,
               at::TensorList exp_avg_sqs, at::TensorList copies, const at::Tensor& steps,
               at::ArrayRef<double> weight_decays, const at::Tensor& learning_rate,
               const at::Tensor& grad_scale, const at::Tensor& skip, double beta1, double beta2, double eps,
               bool decoupled) {
  const size_t num_params = params.size();
  check_float_vector(steps, static_cast<int64_t>(num_params), "adam_step", "steps");
  check_float_vector(learning_rate, 1, "adam_step", "learning_rate");
  check_float_vector(grad_scale, 1, "adam_step", "grad_scale");
  check_float_vector(skip, 1, "adam_step", "skip");
  const float rate = *learning_rate.const_data_ptr<float>();
  const float factor = *grad_scale.const_data_ptr<float>();
  const bool skipped = *skip.const_data_ptr<float>() != 0.0f;
  float* step_data = steps.mutable_data_ptr<float>();
  std::vector<AdamTensor> tensors;
  tensors.reserve(num_params);
  int64_t first = 0;
  for (size_t i = 0; i < num_params; ++i) {
    if (!skipped) step_data[i] += 1.0f;
    tensors.push_back(
        {adam_data(params[i], params[i], "parameter"), adam_data(grads[i], params[i], "gradient"),
         adam_data(exp_avgs[i], params[i], "exp_avg"), adam_data(exp_avg_sqs[i], params[i], "exp_avg_sq"),
         copies.empty() ? nullptr : copy_data(copies[i], params[i]), params[i].numel(), first,
         adam_scalars(rate, weight_decays[i], step_data[i], factor, beta1, beta2, eps, decoupled)});
    first += params[i].numel();
  }
  if (first == 0) return;
  const auto update = [&](auto zero) {
    using T = decltype(zero);
    parallel_elements(tensors, [&](const AdamTensor& tensor, int64_t offset, int64_t count) {
      if (skipped) {
        std::fill_n(tensor.grad + offset, count, 0.0f);
      } else {
        T* copy = tensor.copy == nullptr ? nullptr : static_cast<T*>(tensor.copy) + offset;
        isa_kernels().of<T>().adam(tensor.param + offset, tensor.grad + offset, tensor.exp_avg + offset,
                                   tensor.exp_avg_sq + offset, copy, count, tensor.scalars);
      }
    });
  };
  if (copies.empty()) {
    update(float{});
  } else {
    with_activation_type(copies.front(), update);
  }
}

}  // namespace finetune::kernels::cpu
