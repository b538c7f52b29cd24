#include "functions.h"
#include "simd.h"

namespace finetune::kernels::cpu {
inline namespace CPU_CAPABILITY {
namespace {

/// Elements looked at together for whether an update can change them.
constexpr int64_t kBlock = 4 * kWidth;

inline bool all_zero(const float* grad, const float* exp_avg, const float* exp_avg_sq) {
  Vec any(0.0f);
  for (int64_t i = 0; i < kBlock; i += kWidth) {
    any = any | Vec::loadu(grad + i) | Vec::loadu(exp_avg + i) | Vec::loadu(exp_avg_sq + i);
  }
  return any.zero_mask() == (1 << kWidth) - 1;
}

template <typename T>
inline void update(float* param, float* grad, float* exp_avg, float* exp_avg_sq, T* copy, int64_t count,
                   const AdamScalars& scalars) {
  const Vec zero(0.0f);
  const Vec grad_scale(scalars.grad_scale), decay_factor(scalars.decay_factor), l2(scalars.l2);
  const Vec first_weight(scalars.first_weight), second_keep(scalars.second_keep),
      second_weight(scalars.second_weight);
  const Vec negative_step(-scalars.step_size), correction2_sqrt(scalars.correction2_sqrt), eps(scalars.eps);
  for_vectors(count, [&](int64_t i, auto part) {
    const Vec p = part.load(param + i) * decay_factor;
    const Vec g = at::vec::fmadd(l2, p, part.load(grad + i) * grad_scale);
    const Vec m_old = part.load(exp_avg + i);
    const Vec m = at::vec::fmadd(first_weight, g - m_old, m_old);
    const Vec v = at::vec::fmadd(second_weight * g, g, part.load(exp_avg_sq + i) * second_keep);
    const Vec denominator = v.sqrt() / correction2_sqrt + eps;
    part.store(m, exp_avg + i);
    part.store(v, exp_avg_sq + i);
    const Vec updated = at::vec::fmadd(negative_step, m / denominator, p);
    part.store(updated, param + i);
    if (copy != nullptr) part.store(updated, copy + i);
    part.store(zero, grad + i);
  });
}

/// `copy` at an element, or null where there is none.
template <typename T>
T* at_element(T* copy, int64_t i) {
  return copy == nullptr ? nullptr : copy + i;
}

template <typename T>
void adam_range(float* param, float* grad, float* exp_avg, float* exp_avg_sq, T* copy, int64_t count,
                const AdamScalars& scalars) {
  // Words of the vocabulary that no row has used: moments and gradient are 0 and stay so, the parameter only
  // decays. Not writing them is a good part of this pass, which waits for memory.
  const bool skips_zeros = scalars.l2 == 0.0f && scalars.eps > 0.0f;
  const Vec decay_factor(scalars.decay_factor);
  int64_t first = 0;
  for (; skips_zeros && first + kBlock <= count; first += kBlock) {
    if (!all_zero(grad + first, exp_avg + first, exp_avg_sq + first)) {
      update(param + first, grad + first, exp_avg + first, exp_avg_sq + first, at_element(copy, first),
             kBlock, scalars);
    } else if (scalars.decay_factor != 1.0f) {
      for (int64_t i = first; i < first + kBlock; i += kWidth) {
        const Vec decayed = Vec::loadu(param + i) * decay_factor;
        decayed.store(param + i);
        if (copy != nullptr) store_values(decayed, copy + i);
      }
    }
  }
  update(param + first, grad + first, exp_avg + first, exp_avg_sq + first, at_element(copy, first),
         count - first, scalars);
}

}  // namespace

template <typename T>
void put_adam_kernels(ActivationKernels<T>& kernels) {
  kernels.adam = adam_range<T>;
}
FINETUNE_FOR_ACTIVATION_TYPES(put_adam_kernels)

}  // namespace CPU_CAPABILITY
}  // namespace finetune::kernels::cpu
