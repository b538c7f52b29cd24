#include "rotary.h"

#include <ATen/ATen.h>

namespace finetune {

Rotary::Rotary(int64_t head_size, double theta, c10::Device device) {
  const auto exponents = at::arange(0, head_size, 2, at::TensorOptions(at::kFloat).device(device)) /
                         static_cast<double>(head_size);
  frequencies_ = at::pow(theta, exponents).reciprocal();
}

Rotary::Angles Rotary::angles(const at::Tensor& position_ids) const {
  const auto turns = (position_ids.to(at::kFloat).unsqueeze(1) * frequencies_).unsqueeze(1).unsqueeze(1);
  return {.cos = turns.cos(), .sin = turns.sin()};
}

at::Tensor rotate_queries_and_keys(const at::Tensor& qkv, const Rotary::Angles& angles, int64_t num_heads) {
  const int64_t n = qkv.size(0), h = qkv.size(1) / 3, half = h / num_heads / 2;
  const auto turned = qkv.narrow(1, 0, 2 * h).reshape({n, 2, num_heads, 2 * half}).to(at::kFloat);
  const auto first = turned.narrow(3, 0, half), second = turned.narrow(3, half, half);
  const auto rotated =
      at::cat({first * angles.cos - second * angles.sin, second * angles.cos + first * angles.sin}, 3);
  return at::cat({rotated.view({n, 2 * h}).to(qkv.scalar_type()), qkv.narrow(1, 2 * h, h)}, 1);
}

}  // namespace finetune
