#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "finetune/kernels/activation.h"

/// Tensor operations that ATen lacks, on packed rows: N tokens of B rows one after the other, no padding.
///
/// Each is an operator of the dispatcher (`finetune::name`): the device of its operands picks the kernel, so
/// calling code is the same for every device. None waits for the device.
///
/// **Gradients of parameters** are added straight into the parameter's `.grad()`, which the caller allocates
/// once. A parameter without `requires_grad` gets none. Gradients of
/// activations flow through autograd as usual.
///
/// **Precision**: activations are float32, bfloat16 or float16, all operands of a call alike; biases,
/// parameters of LayerNorm and gradients of parameters are float32, and so is the arithmetic.
namespace finetune::kernels {

/// What counter-based dropout depends on: the same values give the same mask on every device, with any thread
/// count and any split of an update into micro-batches.
///
/// An element is kept where the 16-bit Philox4x32-7 draw (Salmon et al. 2011, "Parallel random numbers: as
/// easy as 1, 2, 3") of (key: seed; counter: step, site, row, position, feature) is at least
/// `round(probability * 65536)`; what is kept is divided by the fraction kept.
struct Dropout {
  double probability = 0.0;  ///< 0 turns it off: nothing is drawn, `rng` and `token_keys` may be undefined
  int64_t site = 0;          ///< which dropout of the model this is, below 2^16
  at::Tensor rng;            ///< [2] int64 on the device: seed, step
  at::Tensor token_keys;     ///< [N] int64: row in the update << 32 | position in the row
};

/// Tokens of the rows `rows` out of an arena.
///
/// arena [T] int32, row_offsets [R+1] int64, second_segments [R] int32, rows [B] int64, cu_seqlens [B+1]
/// int32 (prefix sums of the rows' lengths, the last one `num_tokens`); first_row: position of rows[0] in the
/// update. Returns input_ids [N] int32, token_type_ids [N] int32, position_ids [N] int32, token_keys [N]
/// int64.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> gather_batch(
    const at::Tensor& arena, const at::Tensor& row_offsets, const at::Tensor& second_segments,
    const at::Tensor& rows, const at::Tensor& cu_seqlens, int64_t num_tokens, int64_t first_row);

/// word[input_ids] + position[position_ids] + type[token_type_ids]: [N, H].
/// Ids [N] int32; word [V, H], position [P, H], type [S, H]. `type` may be undefined (families without token
/// types). The gradient touches only the rows seen.
at::Tensor embedding_sum(const at::Tensor& input_ids, const at::Tensor& position_ids,
                         const at::Tensor& token_type_ids, const at::Tensor& word, const at::Tensor& position,
                         const at::Tensor& type);

/// A matrix of products. In mixed precision the products read the copy, while gradient and optimizer belong
/// to the master weights; the copy is kept equal to them by whoever changes them.
struct Weight {
  at::Tensor master;  ///< [O, I] float32
  at::Tensor copy;    ///< [O, I] in the activations' low precision; undefined where those are float32

  Weight() = default;
  Weight(at::Tensor weight) : master(std::move(weight)) {}  // NOLINT: a tensor alone is a weight in float32
  Weight(at::Tensor weight, at::Tensor low) : master(std::move(weight)), copy(std::move(low)) {}

  /// What a product with activations like `x` reads.
  const at::Tensor& operand(const at::Tensor& x) const {
    return x.scalar_type() == at::kFloat ? master : copy;
  }
};

/// x [N, I] times weight [O, I] transposed: [N, O] in x's precision, accumulated in float32. A bias belongs
/// to the operation that follows, which adds it in passing.
at::Tensor linear(const at::Tensor& x, const Weight& weight);

/// x + bias: [N, O]; for linear layers that nothing fused follows.
at::Tensor add_bias(const at::Tensor& x, const at::Tensor& bias);

/// activation(x + bias): [N, I].
at::Tensor bias_activation(const at::Tensor& x, const at::Tensor& bias, Activation activation);

/// Dropout of x [N, H].
at::Tensor dropout(const at::Tensor& x, const Dropout& dropout);

/// Layer normalisation over the last dimension of x [N, H].
at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double eps);

/// layer_norm(dropout(x + x_bias) + residual): the end of each half of a post-norm encoder layer. All [N, H].
at::Tensor dropout_add_layer_norm(const at::Tensor& x, const at::Tensor& x_bias, const at::Tensor& residual,
                                  const at::Tensor& weight, const at::Tensor& bias, double eps,
                                  const Dropout& dropout);

/// Self-attention within each row: softmax(q k^T * scale) v, with dropout on the probabilities.
///
/// qkv [N, 3 * H] (queries, keys, values; each heads x head size), qkv_bias [3 * H] (added here), cu_seqlens
/// [B+1] int32; max_length: of the longest row, known on the host. Returns [N, H]. No score matrix is kept
/// for the backward pass: it is recomputed from qkv and the rows' log-sum-exp (Dao et al. 2022).
at::Tensor packed_attention(const at::Tensor& qkv, const at::Tensor& qkv_bias, const at::Tensor& cu_seqlens,
                            int64_t max_length, int64_t num_heads, double scale, const Dropout& dropout);

/// One AdamW (`decoupled`) or Adam update of many parameters in one pass, which also clears the gradients.
/// The arithmetic is torch.optim.AdamW's/Adam's: p *= 1 - lr * weight_decay (or g += weight_decay * p),
/// moments, bias correction by each parameter's own count of updates, p -= lr / correction1 * m / (sqrt(v) /
/// sqrt(correction2) + eps).
///
/// params, grads, exp_avgs, exp_avg_sqs: lists of P tensors, same shapes, float32. copies: empty, or P
/// tensors of one low precision, laid out as their parameters, which get the new values (one without
/// elements: none). steps [P] float32: updates of each parameter so far, advanced here. weight_decays: P
/// values. learning_rate [] float32; grad_scale [] float32: gradients are multiplied by it (clipping); skip
/// [] float32: 1 leaves parameters, moments and steps as they are and only clears the gradients.
struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  bool decoupled = true;
};
void adam_step(const std::vector<at::Tensor>& params, const std::vector<at::Tensor>& grads,
               const std::vector<at::Tensor>& exp_avgs, const std::vector<at::Tensor>& exp_avg_sqs,
               const std::vector<at::Tensor>& copies, const at::Tensor& steps,
               const std::vector<double>& weight_decays, const at::Tensor& learning_rate,
               const at::Tensor& grad_scale, const at::Tensor& skip, const AdamOptions& options);

}  // namespace finetune::kernels
