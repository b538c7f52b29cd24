#pragma once

#include <cmath>

#include "finetune/kernels/activation.h"
#include "scalar.cuh"

namespace finetune::kernels::cuda {

/// In place of an `Activation`: none, for the plain addition of a bias.
constexpr int64_t kNoActivation = -1;

/// A function's value and slope at one point.
struct Activated {
  float value;
  float slope;
};

/// x times the gate sigmoid(inner), whose inner function has the slope `inner_slope`.
FINETUNE_DEVICE Activated gated(float x, float inner, float inner_slope) {
  const float e = expf(-inner);
  const float open = 1.0f / (1.0f + e);
  const float closed = open > 0.0f ? e * open : 1.0f;
  return {x * open, open + x * inner_slope * open * closed};
}

FINETUNE_DEVICE Activated activate(float x, int64_t activation) {
  constexpr float kInverseSqrt2 = 0.7071067812f;
  constexpr float kInverseSqrt2Pi = 0.3989422804f;
  constexpr float kTanhInner = 2.0f * 0.7978845608f;  // twice sqrt(2 / pi): tanh(u) = 2 sigmoid(2 u) - 1
  constexpr float kTanhCubic = 0.044715f;
  constexpr float kQuickSlope = 1.702f;
  switch (activation) {
    case static_cast<int64_t>(Activation::kGelu): {
      const float distribution = 0.5f * erfcf(-x * kInverseSqrt2);
      return {x * distribution, distribution + x * kInverseSqrt2Pi * expf(-0.5f * x * x)};
    }
    case static_cast<int64_t>(Activation::kGeluTanh):
      return gated(x, x * kTanhInner * (1.0f + kTanhCubic * x * x),
                   kTanhInner * (1.0f + 3.0f * kTanhCubic * x * x));
    case static_cast<int64_t>(Activation::kQuickGelu):
      return gated(x, kQuickSlope * x, kQuickSlope);
    case static_cast<int64_t>(Activation::kRelu):
      return {x > 0.0f ? x : 0.0f, x > 0.0f ? 1.0f : 0.0f};
    case static_cast<int64_t>(Activation::kSilu):
      return gated(x, x, 1.0f);
    case static_cast<int64_t>(Activation::kTanh): {
      const float y = tanhf(x);
      return {y, 1.0f - y * y};
    }
    default:
      return {x, 1.0f};
  }
}

}  // namespace finetune::kernels::cuda
