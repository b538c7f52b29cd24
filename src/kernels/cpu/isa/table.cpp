#include "functions.h"

#define FINETUNE_STRING_OF(x) #x
#define FINETUNE_STRING(x) FINETUNE_STRING_OF(x)

namespace finetune::kernels::cpu {
inline namespace CPU_CAPABILITY {
namespace {

template <typename T>
ActivationKernels<T> activation_kernels() {
  ActivationKernels<T> kernels{};
  put_row_kernels(kernels);
  put_activation_kernels(kernels);
  put_norm_kernels(kernels);
  put_attention_kernels(kernels);
  put_adam_kernels(kernels);
  return kernels;
}

}  // namespace

const IsaKernels& kernel_table();
const IsaKernels& kernel_table() {
  static const IsaKernels table{
      .name = FINETUNE_STRING(CPU_CAPABILITY),
      .float32 = activation_kernels<float>(),
      .bfloat16 = activation_kernels<c10::BFloat16>(),
      .float16 = activation_kernels<c10::Half>(),
      .attention_scratch = attention_scratch,
      .embedding_row = embedding_row,
      .add_to = add_to,
  };
  return table;
}

}  // namespace CPU_CAPABILITY
}  // namespace finetune::kernels::cpu
