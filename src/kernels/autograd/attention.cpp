#include "../operators.h"
#include "finetune/kernels/ops.h"
#include "parameter_grad.h"
#include "saved_dropout.h"

namespace finetune::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct PackedAttention : torch::autograd::Function<PackedAttention> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& qkv, const at::Tensor& qkv_bias,
                            const at::Tensor& cu_seqlens, int64_t max_length, int64_t num_heads, double scale,
                            const Dropout& dropout) {
    auto [output, log_sum_exp] = operators::packed_attention(
        qkv, qkv_bias, cu_seqlens, max_length, num_heads, scale, dropout.probability, dropout.site,
        optional_tensor(dropout.rng), optional_tensor(dropout.token_keys));
    save_dropout(context, dropout);
    context->saved_data["max_length"] = max_length;
    context->saved_data["num_heads"] = num_heads;
    context->saved_data["scale"] = scale;
    context->save_for_backward(
        {output, log_sum_exp, qkv, qkv_bias, cu_seqlens, dropout.rng, dropout.token_keys});
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    at::Tensor qkv_grad = operators::packed_attention_backward(
        grads[0].contiguous(), saved[0], saved[1], saved[2], saved[3], saved[4],
        context->saved_data["max_length"].toInt(), context->saved_data["num_heads"].toInt(),
        context->saved_data["scale"].toDouble(), saved_probability(context), saved_site(context),
        optional_tensor(saved[5]), optional_tensor(saved[6]), parameter_grad(saved[3]));
    variable_list result(7);
    result[0] = std::move(qkv_grad);
    return result;
  }
};

}  // namespace

at::Tensor packed_attention(const at::Tensor& qkv, const at::Tensor& qkv_bias, const at::Tensor& cu_seqlens,
                            int64_t max_length, int64_t num_heads, double scale, const Dropout& dropout) {
  if (!needs_graph(qkv, qkv_bias)) {
    return std::get<0>(operators::packed_attention(
        qkv, qkv_bias, cu_seqlens, max_length, num_heads, scale, dropout.probability, dropout.site,
        optional_tensor(dropout.rng), optional_tensor(dropout.token_keys)));
  }
  return PackedAttention::apply(qkv, qkv_bias, cu_seqlens, max_length, num_heads, scale, dropout);
}

}  // namespace finetune::kernels
