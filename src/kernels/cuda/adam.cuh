#pragma once

#include <cmath>

#include "block.cuh"

/// One AdamW or Adam update of all parameters; the arithmetic is the CPU kernel's.
namespace finetune::kernels::cuda {

/// The bias corrections of one parameter, by its own count of updates.
struct AdamCorrection {
  float step_size;  ///< lr / (1 - beta1^t)
  float correction2_sqrt;
};

/// Advances the parameters' step counters and works out their corrections in double precision, a thread a
/// parameter.
struct AdamPrepare {
  Span<float> steps;  ///< [P]
  Span<const float> learning_rate;
  Span<const float> skip;
  Span<AdamCorrection> corrections;  ///< [P]
  double beta1;
  double beta2;

  static constexpr int kThreads = 128;
  Grid grid() const { return {.x = blocks_for(steps.size, kThreads)}; }
  int64_t shared_bytes() const { return 0; }

  template <typename Block>
  FINETUNE_DEVICE void operator()(Block& block) const {
    const int64_t i = block.x() * kThreads + block.thread();
    if (i >= steps.size || skip[0] != 0.0f) return;
    steps[i] += 1.0f;
    const double step = steps[i];
    corrections[i] = {static_cast<float>(learning_rate[0] / (1.0 - pow(beta1, step))),
                      static_cast<float>(sqrt(1.0 - pow(beta2, step)))};
  }
};

/// A parameter with all that belongs to it.
struct AdamTensor {
  float* param;
  float* grad;
  float* exp_avg;
  float* exp_avg_sq;
  uint16_t* copy;  ///< its low-precision copy, or null
  int64_t count;
  double weight_decay;
};

/// Clears the gradients and, unless the update is skipped, applies them. A launch takes up to `kMostTensors`
/// parameters; its operands travel with it.
struct AdamUpdate {
  static constexpr int kMostTensors = 48;
  AdamTensor tensors[kMostTensors];
  int64_t first_block[kMostTensors + 1];  ///< of each tensor; the last one: the number of blocks
  int num_tensors;
  int first_tensor;  ///< number of tensors[0] among all parameters
  bool copies_are_bfloat16;
  bool decoupled;
  Span<const AdamCorrection> corrections;  ///< [P]
  Span<const float> learning_rate;
  Span<const float> grad_scale;
  Span<const float> skip;
  float first_weight;   ///< 1 - beta1
  float second_keep;    ///< beta2
  float second_weight;  ///< 1 - beta2
  float eps;

  static constexpr int kThreads = 256;
  static constexpr int64_t kBlockElements = kThreads * 4 * kPackSize;

  /// The next parameter, of at most `kMostTensors`.
  void add(const AdamTensor& tensor) {
    tensors[num_tensors] = tensor;
    first_block[num_tensors + 1] = first_block[num_tensors] + blocks_for(tensor.count, kBlockElements);
    ++num_tensors;
  }
  Grid grid() const { return {.x = first_block[num_tensors]}; }
  int64_t shared_bytes() const { return 0; }

  template <typename Block>
  FINETUNE_DEVICE void operator()(Block& block) const {
    int index = 0;
    while (first_block[index + 1] <= block.x()) ++index;
    const AdamTensor& tensor = tensors[index];
    const int64_t first = (block.x() - first_block[index]) * kBlockElements + block.thread() * kPackSize;
    const int64_t end = (block.x() - first_block[index] + 1) * kBlockElements;
    const bool skipped = skip[0] != 0.0f;
    for (int64_t i = first; i < end; i += kThreads * kPackSize) {
      const int count = pack_count(i, tensor.count);
      if (count == 0) return;
      if (skipped) {
        store_pack(Pack{}, span(tensor, tensor.grad), i, count);
      } else {
        update(tensor, corrections[first_tensor + index], i, count);
      }
    }
  }

 private:
  template <typename T>
  FINETUNE_DEVICE static Span<T> span(const AdamTensor& tensor, T* data) {
    return {data, tensor.count};
  }

  FINETUNE_DEVICE void update(const AdamTensor& tensor, const AdamCorrection& correction, int64_t i,
                              int count) const {
    const auto decay_factor =
        static_cast<float>(decoupled ? 1.0 - learning_rate[0] * tensor.weight_decay : 1.0);
    const auto l2 = static_cast<float>(decoupled ? 0.0 : tensor.weight_decay);
    const float scale = grad_scale[0];
    Pack p = load_pack(span(tensor, tensor.param), i, count);
    const Pack raw = load_pack(span(tensor, tensor.grad), i, count);
    Pack m = load_pack(span(tensor, tensor.exp_avg), i, count);
    Pack v = load_pack(span(tensor, tensor.exp_avg_sq), i, count);
    for (int k = 0; k < kPackSize; ++k) {
      p.value[k] *= decay_factor;
      const float g = raw.value[k] * scale + l2 * p.value[k];
      m.value[k] += first_weight * (g - m.value[k]);
      v.value[k] = v.value[k] * second_keep + second_weight * g * g;
      p.value[k] -=
          correction.step_size * (m.value[k] / (sqrtf(v.value[k]) / correction.correction2_sqrt + eps));
    }
    store_pack(p, span(tensor, tensor.param), i, count);
    store_pack(Pack{}, span(tensor, tensor.grad), i, count);
    store_pack(m, span(tensor, tensor.exp_avg), i, count);
    store_pack(v, span(tensor, tensor.exp_avg_sq), i, count);
    if (tensor.copy == nullptr) return;
    if (copies_are_bfloat16) {
      store_pack(p, span(tensor, reinterpret_cast<Bfloat16*>(tensor.copy)), i, count);
    } else {
      store_pack(p, span(tensor, reinterpret_cast<Float16*>(tensor.copy)), i, count);
    }
  }
};

static_assert(sizeof(AdamUpdate) <= 4096, "a launch's operands are at most 4 KB");

}  // namespace finetune::kernels::cuda
