#pragma once

#include "../isa_kernels.h"

/// The functions of `IsaKernels`, one set for each instruction set.
namespace finetune::kernels::cpu {
inline namespace CPU_CAPABILITY {

void add_bias_rows(const float* x, const float* bias, float* y, int64_t rows, int64_t cols);
void column_sums(const float* x, int64_t rows, int64_t cols, float* sums);
void bias_activation_rows(const float* x, const float* bias, float* y, int64_t rows, int64_t cols,
                          int64_t activation);
void bias_activation_backward_rows(const float* grad, const float* x, const float* bias, float* x_grad,
                                   float* bias_sums, int64_t rows, int64_t cols, int64_t activation);
void dropout_rows(const float* x, const int64_t* token_keys, float* y, int64_t rows, int64_t cols,
                  const DropoutDraw& draw);
void layer_norm_rows(const NormRows& shape, const float* x, float* y, float* mean, float* rstd);
void dropout_add_layer_norm_rows(const NormRows& shape, const float* x, const float* x_bias,
                                 const float* residual, const int64_t* token_keys, const DropoutDraw& draw,
                                 float* y, float* sum, float* mean, float* rstd);
void layer_norm_backward_rows(const NormRows& shape, const float* grad, const float* sum, const float* mean,
                              const float* rstd, const int64_t* token_keys, const DropoutDraw& draw,
                              float* sum_grad, float* x_grad, const NormGradSums& sums);
int64_t attention_scratch(int64_t max_length, int64_t head_size, bool backward);
void attention_tile(const AttentionShape& shape, const AttentionTile& tile, float* scratch, float* output,
                    float* log_sum_exp);
void attention_backward_tile(const AttentionShape& shape, const AttentionTile& tile, const float* grad,
                             const float* output, const float* log_sum_exp, float* scratch, float* qkv_grad,
                             float* bias_sums);
void embedding_row(const float* word, const float* position, const float* type, float* y, int64_t cols);
void add_to(const float* x, float* sums, int64_t cols);
void adam_range(float* param, float* grad, float* exp_avg, float* exp_avg_sq, int64_t count,
                const AdamScalars& scalars);

}  // namespace CPU_CAPABILITY
}  // namespace finetune::kernels::cpu
