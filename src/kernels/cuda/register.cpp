#include <torch/library.h>

#include "kernels.h"

namespace finetune::kernels::cuda {

TORCH_LIBRARY_IMPL(finetune, CUDA, library) {
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

}  // namespace finetune::kernels::cuda
