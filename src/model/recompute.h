#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace finetune {

/// body(x), of which the backward pass keeps x alone and computes the rest anew (Chen et al. 2016, "Training
/// Deep Nets with Sublinear Memory Cost"): a forward pass more for a layer's activations less.
///
/// `body` must give the same values each time (counted dropout does) and live until the backward pass is
/// over; it may use parameters, whose gradients are added as without recomputing. Where x needs no gradient,
/// it is just called.
at::Tensor recomputed(std::function<at::Tensor(const at::Tensor&)> body, const at::Tensor& x);

}  // namespace finetune
