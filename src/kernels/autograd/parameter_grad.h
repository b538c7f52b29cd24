#pragma once

#include <torch/csrc/autograd/custom_function.h>

#include <optional>

namespace finetune::kernels {

/// The gradient that a backward operator adds to: the parameter's own, allocated here at the latest; nullopt
/// for a frozen or undefined parameter.
inline std::optional<at::Tensor> parameter_grad(const at::Tensor& parameter) {
  if (!parameter.defined() || !parameter.requires_grad()) return std::nullopt;
  at::Tensor& grad = parameter.mutable_grad();
  if (!grad.defined()) grad = at::zeros_like(parameter.detach());
  return grad;
}

/// Whether anything must be kept for a backward pass.
template <typename... Tensors>
bool needs_graph(const Tensors&... tensors) {
  return at::GradMode::is_enabled() && ((tensors.defined() && tensors.requires_grad()) || ...);
}

/// An undefined tensor as the operators' nullopt.
inline std::optional<at::Tensor> optional_tensor(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional<at::Tensor>(tensor) : std::nullopt;
}

}  // namespace finetune::kernels
