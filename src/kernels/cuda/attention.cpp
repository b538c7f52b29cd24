#include "attention.cuh"

#include <ATen/ops/empty_like.h>

#include "kernels.h"
#include "launch.h"
#include "operands.h"

namespace finetune::kernels::cuda {
namespace {

/// A grid's third dimension.
constexpr int64_t kMostRows = 65535;

template <typename T>
AttentionProblem<T> attention_problem(const at::Tensor& qkv, const at::Tensor& qkv_bias,
                                      const at::Tensor& cu_seqlens, int64_t max_length, int64_t num_heads,
                                      double scale, const DropoutSite& draw, const char* op) {
  const int64_t cols = qkv.size(1);
  TORCH_CHECK(num_heads > 0 && cols % (3 * num_heads) == 0, op, ": qkv's ", cols,
              " columns are not three times a multiple of ", num_heads, " heads");
  TORCH_CHECK(cu_seqlens.numel() - 1 <= kMostRows, op, ": ", cu_seqlens.numel() - 1,
              " rows at once; the kernel takes up to ", kMostRows);
  return {.qkv = span<const T>(qkv, op, "qkv"),
          .qkv_bias = span<const float>(qkv_bias, cols, op, "qkv_bias"),
          .cu_seqlens = span<const int32_t>(cu_seqlens, op, "cu_seqlens"),
          .dropout = draw,
          .num_tokens = qkv.size(0),
          .max_length = max_length,
          .num_heads = num_heads,
          .head_size = cols / 3 / num_heads,
          .scale = static_cast<float>(scale)};
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> packed_attention(const at::Tensor& qkv, const at::Tensor& qkv_bias,
                                                    const at::Tensor& cu_seqlens, int64_t max_length,
                                                    int64_t num_heads, double scale, double probability,
                                                    int64_t site, const OptionalTensor& rng,
                                                    const OptionalTensor& token_keys) {
  constexpr auto kOp = "packed_attention";
  check_activations(qkv, kOp, "qkv");
  const c10::DeviceGuard guard(qkv.device());
  const int64_t num_tokens = qkv.size(0);
  const DropoutSite draw = dropout_site(probability, site, rng, token_keys, num_tokens, kOp);
  at::Tensor output = at::empty({num_tokens, qkv.size(1) / 3}, qkv.options());
  at::Tensor log_sum_exp = at::empty({num_heads, num_tokens}, qkv.options().dtype(at::kFloat));
  with_activation_type(qkv, kOp, [&](auto zero) {
    using T = decltype(zero);
    launch(AttentionForward<T>{
        .problem = attention_problem<T>(qkv, qkv_bias, cu_seqlens, max_length, num_heads, scale, draw, kOp),
        .output = span<T>(output, kOp, "result"),
        .log_sum_exp = span<float>(log_sum_exp, kOp, "log_sum_exp")});
  });
  return {output, log_sum_exp};
}

at::Tensor packed_attention_backward(const at::Tensor& grad, const at::Tensor& output,
                                     const at::Tensor& log_sum_exp, const at::Tensor& qkv,
                                     const at::Tensor& qkv_bias, const at::Tensor& cu_seqlens,
                                     int64_t max_length, int64_t num_heads, double scale, double probability,
                                     int64_t site, const OptionalTensor& rng,
                                     const OptionalTensor& token_keys, const OptionalTensor& qkv_bias_grad) {
  constexpr auto kOp = "packed_attention_backward";
  check_activations(qkv, kOp, "qkv");
  const c10::DeviceGuard guard(qkv.device());
  const int64_t num_tokens = qkv.size(0);
  const DropoutSite draw = dropout_site(probability, site, rng, token_keys, num_tokens, kOp);
  at::Tensor qkv_grad = at::empty_like(qkv);
  with_activation_type(qkv, kOp, [&](auto zero) {
    using T = decltype(zero);
    launch(AttentionBackward<T>{
        .problem = attention_problem<T>(qkv, qkv_bias, cu_seqlens, max_length, num_heads, scale, draw, kOp),
        .grad = span<const T>(grad, output.numel(), kOp, "grad"),
        .output = span<const T>(output, kOp, "output"),
        .log_sum_exp = span<const float>(log_sum_exp, num_heads * num_tokens, kOp, "log_sum_exp"),
        .qkv_grad = span<T>(qkv_grad, kOp, "result")});
  });
  if (qkv_bias_grad) add_bias_backward(qkv_grad, *qkv_bias_grad);
  return qkv_grad;
}

}  // namespace finetune::kernels::cuda
