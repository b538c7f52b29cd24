#include "../operators.h"
#include "finetune/kernels/ops.h"
#include "parameter_grad.h"

namespace finetune::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct EmbeddingSum : torch::autograd::Function<EmbeddingSum> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input_ids,
                            const at::Tensor& position_ids, const at::Tensor& token_type_ids,
                            const at::Tensor& word, const at::Tensor& position,
                            const std::optional<at::Tensor>& type) {
    context->save_for_backward(
        {input_ids, position_ids, token_type_ids, word, position, type.value_or(at::Tensor())});
    return operators::embedding_sum(input_ids, position_ids, token_type_ids, word, position, type);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    operators::embedding_sum_backward(grads[0].contiguous(), saved[0], saved[1], saved[2],
                                      parameter_grad(saved[3]), parameter_grad(saved[4]),
                                      parameter_grad(saved[5]));
    return variable_list(6);
  }
};

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> gather_batch(
    const at::Tensor& arena, const at::Tensor& row_offsets, const at::Tensor& second_segments,
    const at::Tensor& rows, const at::Tensor& cu_seqlens, int64_t num_tokens, int64_t first_row) {
  return operators::gather_batch(arena, row_offsets, second_segments, rows, cu_seqlens, num_tokens,
                                 first_row);
}

at::Tensor embedding_sum(const at::Tensor& input_ids, const at::Tensor& position_ids,
                         const at::Tensor& token_type_ids, const at::Tensor& word, const at::Tensor& position,
                         const at::Tensor& type) {
  if (!needs_graph(word, position, type)) {
    return operators::embedding_sum(input_ids, position_ids, token_type_ids, word, position,
                                    optional_tensor(type));
  }
  // autograd::Function takes no undefined tensor, only an empty optional.
  return EmbeddingSum::apply(input_ids, position_ids, token_type_ids, word, position, optional_tensor(type));
}

}  // namespace finetune::kernels
