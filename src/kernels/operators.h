#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <tuple>

/// Every operator that each device has a kernel of: X(name).
#define FINETUNE_FOR_EACH_OPERATOR(X) \
  X(gather_batch)                     \
  X(embedding_sum)                    \
  X(embedding_sum_backward)           \
  X(add_product)                      \
  X(add_bias)                         \
  X(add_bias_backward)                \
  X(bias_activation)                  \
  X(bias_activation_backward)         \
  X(dropout)                          \
  X(layer_norm)                       \
  X(layer_norm_backward)              \
  X(dropout_add_layer_norm)           \
  X(dropout_add_layer_norm_backward)  \
  X(packed_attention)                 \
  X(packed_attention_backward)        \
  X(adam_step)

/// The operators `finetune::name` without autograd: each calls the dispatcher, which picks the device's
/// kernel.
///
/// Forward operators also return what their backward operator needs. Backward operators add to the gradients
/// of parameters they are handed; one that is not wanted is nullopt.
namespace finetune::kernels::operators {

using OptionalTensor = std::optional<at::Tensor>;

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

/// weight_grad [O, I] float32 += grad [N, O] transposed times x [N, I], which are of one precision.
void add_product(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& weight_grad);

at::Tensor add_bias(const at::Tensor& x, const at::Tensor& bias);
void add_bias_backward(const at::Tensor& grad, const at::Tensor& bias_grad);

at::Tensor bias_activation(const at::Tensor& x, const at::Tensor& bias, int64_t activation);
at::Tensor bias_activation_backward(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& bias,
                                    int64_t activation, const OptionalTensor& bias_grad);

/// Its own backward: the gradient goes through the same mask.
at::Tensor dropout(const at::Tensor& x, double probability, int64_t site, const at::Tensor& rng,
                   const at::Tensor& token_keys);

/// Returns output [N, H], mean [N], reciprocal standard deviation [N].
std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm(const at::Tensor& x, const at::Tensor& weight,
                                                          const at::Tensor& bias, double eps);
at::Tensor layer_norm_backward(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& mean,
                               const at::Tensor& rstd, const at::Tensor& weight,
                               const OptionalTensor& weight_grad, const OptionalTensor& bias_grad);

/// Returns output [N, H], the sum that was normalised [N, H], mean [N], reciprocal standard deviation [N].
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> dropout_add_layer_norm(
    const at::Tensor& x, const at::Tensor& x_bias, const at::Tensor& residual, const at::Tensor& weight,
    const at::Tensor& bias, double eps, double probability, int64_t site, const OptionalTensor& rng,
    const OptionalTensor& token_keys);
/// Returns the gradients of x and of the residual [N, H].
std::tuple<at::Tensor, at::Tensor> dropout_add_layer_norm_backward(
    const at::Tensor& grad, const at::Tensor& sum, const at::Tensor& mean, const at::Tensor& rstd,
    const at::Tensor& weight, double probability, int64_t site, const OptionalTensor& rng,
    const OptionalTensor& token_keys, const OptionalTensor& x_bias_grad, const OptionalTensor& weight_grad,
    const OptionalTensor& bias_grad);

/// Returns output [N, H] and the log-sum-exp of each query's scaled scores [heads, N].
std::tuple<at::Tensor, at::Tensor> packed_attention(const at::Tensor& qkv, const at::Tensor& qkv_bias,
                                                    const at::Tensor& cu_seqlens, int64_t max_length,
                                                    int64_t num_heads, double scale, double probability,
                                                    int64_t site, const OptionalTensor& rng,
                                                    const OptionalTensor& token_keys);
/// Returns the gradient of qkv [N, 3 * H].
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

}  // namespace finetune::kernels::operators
