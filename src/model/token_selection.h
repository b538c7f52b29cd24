#pragma once

#include <ATen/core/Tensor.h>

namespace finetune {

/// What of x [N, ...] belongs to `tokens` [R]: [R, ...]; all where `tokens` is undefined.
inline at::Tensor select_tokens(const at::Tensor& x, const at::Tensor& tokens) {
  return tokens.defined() ? x.index_select(0, tokens) : x;
}

}  // namespace finetune
