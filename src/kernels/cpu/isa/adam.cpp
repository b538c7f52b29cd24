#include "functions.h"
#include "simd.h"

namespace finetune::kernels::cpu {
inline namespace CPU_CAPABILITY {

void adam_range(float* param, float* grad, float* exp_avg, float* exp_avg_sq, int64_t count,
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
    part.store(at::vec::fmadd(negative_step, m / denominator, p), param + i);
    part.store(zero, grad + i);
  });
}

}  // namespace CPU_CAPABILITY
}  // namespace finetune::kernels::cpu
