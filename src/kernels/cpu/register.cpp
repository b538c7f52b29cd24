#include "kernels.h"

#if defined(__x86_64__)
/// Takes the place of the function of the same name in LibTorch's MKL, which asks it whether the processor is
/// Intel's and else uses slower products, whatever instructions there are. MKL still tests for the
/// instructions: on AMD's Zen 3 its AVX2 products of this program's shapes take a quarter less time. It lies
/// here because this file is part of every program that runs a kernel.
extern "C" int mkl_serv_intel_cpu_true();
int mkl_serv_intel_cpu_true() { return 1; }
#endif

namespace finetune::kernels::cpu {

void register_kernels(torch::Library& library) {
  library.impl("gather_batch", TORCH_FN(gather_batch));
  library.impl("embedding_sum", TORCH_FN(embedding_sum));
  library.impl("embedding_sum_backward", TORCH_FN(embedding_sum_backward));
  library.impl("add_bias", TORCH_FN(add_bias));
  library.impl("add_bias_backward", TORCH_FN(add_bias_backward));
  library.impl("bias_activation", TORCH_FN(bias_activation));
  library.impl("bias_activation_backward", TORCH_FN(bias_activation_backward));
  library.impl("dropout", TORCH_FN(dropout));
  library.impl("layer_norm", TORCH_FN(layer_norm));
  library.impl("layer_norm_backward", TORCH_FN(layer_norm_backward));
  library.impl("dropout_add_layer_norm", TORCH_FN(dropout_add_layer_norm));
  library.impl("dropout_add_layer_norm_backward", TORCH_FN(dropout_add_layer_norm_backward));
  library.impl("packed_attention", TORCH_FN(packed_attention));
  library.impl("packed_attention_backward", TORCH_FN(packed_attention_backward));
  library.impl("adam_step", TORCH_FN(adam_step));
}

}  // namespace finetune::kernels::cpu
