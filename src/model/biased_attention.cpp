#include "biased_attention.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>

namespace finetune {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Where heads begin in a token key. The generator of dropout takes all of a key's upper half as the row:
/// rows of an update keep the lower 20 bits of it to themselves.
constexpr int64_t kHeadShift = 52;

/// x[index], of which each row that counts goes to one place alone, `back`: the gradient is gathered, too,
/// where that of index_select would add up what lies beyond the rows' ends.
struct GatherRows : torch::autograd::Function<GatherRows> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& index,
                            const at::Tensor& back) {
    context->save_for_backward({back});
    return x.index_select(0, index);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    return {grads[0].index_select(0, context->get_saved_variables()[0]), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

PaddedRows::PaddedRows(const Batch& batch) : num_rows_(batch.num_rows), length_(batch.max_length) {
  const auto begins = batch.cu_seqlens.narrow(0, 0, num_rows_).to(at::kLong);  // [B]
  const auto ends = batch.cu_seqlens.narrow(0, 1, num_rows_).to(at::kLong);
  const auto positions = at::arange(length_, begins.options());
  const auto index = begins.unsqueeze(1) + positions;  // [B, L]
  beyond_end_ = index.ge(ends.unsqueeze(1)).view({num_rows_, 1, 1, length_});
  pad_index_ = index.clamp_max(batch.num_tokens - 1).flatten();
  const auto row_of_token = at::searchsorted(ends, at::arange(batch.num_tokens, ends.options()),
                                             /*out_int32=*/false, /*right=*/true);
  unpad_index_ = row_of_token * length_ + batch.position_ids;
}

at::Tensor PaddedRows::pad(const at::Tensor& packed) const {
  return GatherRows::apply(packed, pad_index_, unpad_index_).view({num_rows_, length_, packed.size(1)});
}

at::Tensor PaddedRows::unpad(const at::Tensor& padded) const { return padded.index_select(0, unpad_index_); }

at::Tensor PaddedRows::probability_keys(const at::Tensor& token_keys, int64_t num_heads) const {
  const auto keys = token_keys.index_select(0, pad_index_).view({num_rows_, 1, length_});
  const auto heads = at::arange(num_heads, token_keys.options()).view({1, num_heads, 1});
  return (keys + heads.bitwise_left_shift(kHeadShift)).flatten();
}

at::Tensor biased_attention(const at::Tensor& qkv, const PaddedRows& rows, int64_t num_heads, double scale,
                            const ScoreTerms& terms, const kernels::Dropout& dropout) {
  const int64_t b = rows.num_rows(), l = rows.length(), h = qkv.size(1) / 3;
  const auto heads = rows.pad(qkv).view({b, l, 3, num_heads, h / num_heads}).permute({2, 0, 3, 1, 4});
  const auto query = heads[0] * scale, key = heads[1], value = heads[2];  // [B, heads, L, D]
  auto scores = at::matmul(query, key.transpose(-1, -2)).to(at::kFloat);
  if (terms.bias) scores = scores + terms.bias(query, key);
  const auto hidden = terms.mask.defined() ? rows.beyond_end().logical_or(terms.mask) : rows.beyond_end();
  // Finite, so that a query without keys, which is beyond its row's end, gives no NaN.
  scores = scores.masked_fill(hidden, std::numeric_limits<float>::lowest());
  auto probabilities = at::softmax(scores, -1);  // [B, heads, L, L]
  if (dropout.probability > 0.0) {
    kernels::Dropout draw = dropout;
    draw.token_keys = rows.probability_keys(dropout.token_keys, num_heads);
    probabilities =
        kernels::dropout(probabilities.contiguous().view({b * num_heads * l, l}), draw).view_as(scores);
  }
  const auto context = at::matmul(probabilities.to(value.scalar_type()), value);  // [B, heads, L, D]
  return rows.unpad(context.transpose(1, 2).reshape({b * l, h}));
}

}  // namespace finetune
