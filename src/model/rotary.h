#pragma once

#include <ATen/core/Tensor.h>

namespace finetune {

/// Rotary position embeddings (Su et al. 2021, "RoFormer"), the two halves of a head turned against each
/// other.
class Rotary {
 public:
  /// The i-th pair of features turns by `position / theta^(2i / head_size)`. head_size is even.
  Rotary(int64_t head_size, double theta, c10::Device device);

  /// cos and sin [N, 1, 1, head_size / 2] float32 of each token's angles.
  struct Angles {
    at::Tensor cos, sin;
  };
  Angles angles(const at::Tensor& position_ids) const;

 private:
  at::Tensor frequencies_;  ///< [head_size / 2] float32
};

/// Queries, keys and values [N, 3H], of which queries and keys are turned; in float32, rounded to qkv's
/// precision.
at::Tensor rotate_queries_and_keys(const at::Tensor& qkv, const Rotary::Angles& angles, int64_t num_heads);

}  // namespace finetune
