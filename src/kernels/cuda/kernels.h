#pragma once

#include "../operators.h"

/// The CUDA kernels of `finetune::name`: contiguous tensors of one device, activations in float32, bfloat16
/// or float16, everything else in float32. All is queued on the current stream and nothing is read back.
/// Results repeat to the bit: no kernel adds atomically.
namespace finetune::kernels::cuda {

using operators::OptionalTensor;

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> gather_batch(
    const at::Tensor& arena, const at::Tensor& row_offsets, const at::Tensor& second_segments,
    const at::Tensor& rows, const at::Tensor& cu_seqlens, int64_t num_tokens, int64_t first_row);

at::Tensor embedding_sum(const at::Tensor& input_ids, const at::Tensor& position_ids,
                         const at::Tensor& token_type_ids, const at::Tensor& word, const at::Tensor& position,
                         const OptionalTensor& type);
void embedding_sum_backward(const at::Tensor& grad, const at::Tensor& input_ids,
                            const at::Tensor& position_ids, const at::Tensor& token_type_ids,
                            const OptionalTensor& word_grad, const OptionalTensor& position_grad,
                            const OptionalTensor& type_grad);

at::Tensor add_bias(const at::Tensor& x, const at::Tensor& bias);
void add_bias_backward(const at::Tensor& grad, const at::Tensor& bias_grad);
at::Tensor bias_activation(const at::Tensor& x, const at::Tensor& bias, int64_t activation);
at::Tensor bias_activation_backward(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& bias,
                                    int64_t activation, const OptionalTensor& bias_grad);

at::Tensor dropout(const at::Tensor& x, double probability, int64_t site, const at::Tensor& rng,
                   const at::Tensor& token_keys);

std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm(const at::Tensor& x, const at::Tensor& weight,
                                                          const at::Tensor& bias, double eps);
at::Tensor layer_norm_backward(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& mean,
                               const at::Tensor& rstd, const at::Tensor& weight,
                               const OptionalTensor& weight_grad, const OptionalTensor& bias_grad);
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> dropout_add_layer_norm(
    const at::Tensor& x, const at::Tensor& x_bias, const at::Tensor& residual, const at::Tensor& weight,
    const at::Tensor& bias, double eps, double probability, int64_t site, const OptionalTensor& rng,
    const OptionalTensor& token_keys);
std::tuple<at::Tensor, at::Tensor> dropout_add_layer_norm_backward(
    const at::Tensor& grad, const at::Tensor& sum, const at::Tensor& mean, const at::Tensor& rstd,
    const at::Tensor& weight, double probability, int64_t site, const OptionalTensor& rng,
    const OptionalTensor& token_keys, const OptionalTensor& x_bias_grad, const OptionalTensor& weight_grad,
    const OptionalTensor& bias_grad);

std::tuple<at::Tensor, at::Tensor> packed_attention(const at::Tensor& qkv, const at::Tensor& qkv_bias,
                                                    const at::Tensor& cu_seqlens, int64_t max_length,
                                                    int64_t num_heads, double scale, double probability,
                                                    int64_t site, const OptionalTensor& rng,
                                                    const OptionalTensor& token_keys);
at::Tensor packed_attention_backward(const at::Tensor& grad, const at::Tensor& output,
                                     const at::Tensor& log_sum_exp, const at::Tensor& qkv,
                                     const at::Tensor& qkv_bias, const at::Tensor& cu_seqlens,
                                     int64_t max_length, int64_t num_heads, double scale, double probability,
                                     int64_t site, const OptionalTensor& rng,
                                     const OptionalTensor& token_keys, const OptionalTensor& qkv_bias_grad);

void adam_step(at::TensorList params, at::TensorList grads, at::TensorList exp_avgs,
               at::TensorList exp_avg_sqs, at::TensorList copies, const at::Tensor& steps,
               at::ArrayRef<double> weight_decays, const at::Tensor& learning_rate,
               const at::Tensor& grad_scale, const at::Tensor& skip, double beta1, double beta2, double eps,
               bool decoupled);

}  // namespace finetune::kernels::cuda
