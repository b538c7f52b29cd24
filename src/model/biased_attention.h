#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "finetune/batching/batch.h"
#include "finetune/kernels/ops.h"

namespace finetune {

/// The rows of a batch side by side, each as long as the longest, for what needs a row's tokens as a block.
/// All its tensors are on the batch's device, and nothing waits for it.
class PaddedRows {
 public:
  explicit PaddedRows(const Batch& batch);

  int64_t num_rows() const { return num_rows_; }
  int64_t length() const { return length_; }  ///< L, of the longest row

  /// [N, C] -> [B, L, C]. Beyond a row's end lie some other token's values, and no gradient comes back.
  at::Tensor pad(const at::Tensor& packed) const;
  /// [B * L, C] -> [N, C]
  at::Tensor unpad(const at::Tensor& padded) const;
  /// [B, 1, 1, L] bool: keys that do not exist.
  const at::Tensor& beyond_end() const { return beyond_end_; }
  /// [B * num_heads * L] int64: keys for dropout of the probabilities of each row, head and query, which do
  /// not depend on L (see kernels::Dropout).
  at::Tensor probability_keys(const at::Tensor& token_keys, int64_t num_heads) const;

 private:
  int64_t num_rows_, length_;
  at::Tensor pad_index_;    ///< [B * L] int64 into the N tokens
  at::Tensor unpad_index_;  ///< [N] int64 into the B * L places
  at::Tensor beyond_end_;
};

/// What is special about the scores of an attention.
struct ScoreTerms {
  /// Of queries, already scaled, and keys [B, heads, L, D]: what is added to their products, of a shape that
  /// expands to [B, heads, L, L]; float32, or their precision. None where it is empty.
  std::function<at::Tensor(const at::Tensor& query, const at::Tensor& key)> bias = {};
  /// [L, L] bool, queries by keys: pairs that do not attend; undefined: all do.
  at::Tensor mask = {};
};

/// Attention within each row for which no kernel exists: softmax(q k^T * scale + bias) v, with dropout on the
/// probabilities. The score matrices [B, heads, L, L] are kept for the backward pass.
///
/// qkv [N, 3 * H] (queries, keys, values, with their biases); `rows` of the same batch; `dropout` as for
/// kernels::packed_attention. Returns [N, H] in qkv's precision; scores and probabilities are float32.
at::Tensor biased_attention(const at::Tensor& qkv, const PaddedRows& rows, int64_t num_heads, double scale,
                            const ScoreTerms& terms, const kernels::Dropout& dropout);

}  // namespace finetune
