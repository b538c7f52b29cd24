#pragma once

#include "../isa_kernels.h"

/// What fills `IsaKernels`, one set for each instruction set.
namespace finetune::kernels::cpu {
inline namespace CPU_CAPABILITY {

int64_t attention_scratch(int64_t max_length, int64_t head_size, bool backward);
void embedding_row(const float* word, const float* position, const float* type, float* y, int64_t cols);
void add_to(const float* x, float* sums, int64_t cols);

// Each file fills in its own kernels.
template <typename T>
void put_row_kernels(ActivationKernels<T>& kernels);
template <typename T>
void put_activation_kernels(ActivationKernels<T>& kernels);
template <typename T>
void put_norm_kernels(ActivationKernels<T>& kernels);
template <typename T>
void put_attention_kernels(ActivationKernels<T>& kernels);
template <typename T>
void put_adam_kernels(ActivationKernels<T>& kernels);

/// Defines `put` for every type of activations.
#define FINETUNE_FOR_ACTIVATION_TYPES(put)              \
  template void put(ActivationKernels<float>&);         \
  template void put(ActivationKernels<c10::BFloat16>&); \
  template void put(ActivationKernels<c10::Half>&);

}  // namespace CPU_CAPABILITY
}  // namespace finetune::kernels::cpu
