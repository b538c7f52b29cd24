#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "finetune/kernels/ops.h"
#include "finetune/model/forward_mode.h"

namespace finetune {

/// A low-rank addition to some rows of a weight: scale * B A (Hu et al. 2021, "LoRA: Low-rank adaptation of
/// large language models").
struct Adapter {
  kernels::Weight a;  ///< [rank, I]
  kernels::Weight b;  ///< [rows, rank]
  int64_t first_row = 0;
  double scale = 1.0;
  double dropout = 0.0;  ///< of what A reads
  int64_t site = 0;      ///< of that dropout
};

/// The weight of a linear layer, or of several that one product computes, and their adapters.
struct Projection {
  kernels::Weight weight;
  std::vector<Adapter> adapters = {};
};

/// x [N, I] through the layer: [N, O] in x's precision (see `kernels::linear`). token_keys [N]: what the
/// dropout of adapters depends on; needed in training.
at::Tensor project(const at::Tensor& x, const Projection& projection, const ForwardMode& mode,
                   const at::Tensor& token_keys);

/// Names of the parameters that an adapter adds beside a linear layer's weight, as PEFT has them.
constexpr const char* kAdapterA = ".lora_A.weight";
constexpr const char* kAdapterB = ".lora_B.weight";
bool is_adapter(const std::string& parameter_name);

}  // namespace finetune
