#include "functions.h"

#define FINETUNE_STRING_OF(x) #x
#define FINETUNE_STRING(x) FINETUNE_STRING_OF(x)

namespace finetune::kernels::cpu {
inline namespace CPU_CAPABILITY {

extern const IsaKernels kTable;
const IsaKernels kTable{
    .name = FINETUNE_STRING(CPU_CAPABILITY),
    .add_bias = add_bias_rows,
    .column_sums = column_sums,
    .bias_activation = bias_activation_rows,
    .bias_activation_backward = bias_activation_backward_rows,
    .dropout = dropout_rows,
    .layer_norm = layer_norm_rows,
    .dropout_add_layer_norm = dropout_add_layer_norm_rows,
    .layer_norm_backward = layer_norm_backward_rows,
    .attention_scratch = attention_scratch,
    .attention = attention_tile,
    .attention_backward = attention_backward_tile,
    .embedding_row = embedding_row,
    .add_to = add_to,
    .adam = adam_range,
};

}  // namespace CPU_CAPABILITY
}  // namespace finetune::kernels::cpu
