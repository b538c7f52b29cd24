#include "embedding.cuh"

#include <ATen/ops/sort.h>

#include "kernels.h"
#include "launch.h"
#include "operands.h"

namespace finetune::kernels::cuda {
namespace {

EmbeddingTable embedding_table(const OptionalTensor& table, const at::Tensor& ids, int64_t num_tokens,
                               int64_t cols, const char* name) {
  constexpr auto kOp = "embedding_sum";
  if (!table) return {};
  TORCH_CHECK(table->dim() == 2 && table->size(1) == cols, kOp, ": the ", name, " table must have ", cols,
              " columns, found shape ", table->sizes());
  return {span<const float>(*table, kOp, name), span<const int32_t>(ids, num_tokens, kOp, "ids"),
          table->size(0)};
}

/// Adds grad's rows to the rows `ids` of table_grad.
void add_rows(const at::Tensor& grad, const at::Tensor& ids, const OptionalTensor& table_grad) {
  constexpr auto kOp = "embedding_sum_backward";
  if (!table_grad) return;
  const int64_t num_tokens = grad.size(0);
  const int64_t cols = grad.size(1);
  TORCH_CHECK(ids.numel() == num_tokens && table_grad->size(1) == cols, kOp, ": ", ids.numel(),
              " ids and a table of shape ", table_grad->sizes(), " do not fit a gradient of shape ",
              grad.sizes());
  const auto [sorted_ids, token] =
      at::sort(ids, /*stable=*/std::optional<bool>(true), /*dim=*/0, /*descending=*/false);
  const at::Tensor pieces = at::empty({EmbeddingRuns::num_chunks(num_tokens), 2, cols}, grad.options());
  const auto id_span = span<const int32_t>(sorted_ids, kOp, "ids");
  const auto table_span = span<float>(*table_grad, kOp, "a table's gradient");
  launch(EmbeddingRuns{.grad = span<const float>(grad, kOp, "grad"),
                       .ids = id_span,
                       .token = span<const int64_t>(token, kOp, "token"),
                       .table_grad = table_span,
                       .pieces = span<float>(pieces, kOp, "pieces"),
                       .num_tokens = num_tokens,
                       .cols = cols});
  launch(EmbeddingLongRuns{.ids = id_span,
                           .pieces = span<const float>(pieces, kOp, "pieces"),
                           .table_grad = table_span,
                           .num_tokens = num_tokens,
                           .cols = cols});
}

}  // namespace

at::Tensor embedding_sum(const at::Tensor& input_ids, const at::Tensor& position_ids,
                         const at::Tensor& token_type_ids, const at::Tensor& word, const at::Tensor& position,
                         const OptionalTensor& type) {
  const c10::DeviceGuard guard(word.device());
  const int64_t num_tokens = input_ids.numel();
  const int64_t cols = word.size(1);
  at::Tensor y = at::empty({num_tokens, cols}, word.options());
  launch(EmbeddingSum{.tables = {embedding_table(word, input_ids, num_tokens, cols, "word"),
                                 embedding_table(position, position_ids, num_tokens, cols, "position"),
                                 embedding_table(type, token_type_ids, num_tokens, cols, "token type")},
                      .y = span<float>(y, "embedding_sum", "result"),
                      .num_tokens = num_tokens,
                      .cols = cols});
  return y;
}

void embedding_sum_backward(const at::Tensor& grad, const at::Tensor& input_ids,
                            const at::Tensor& position_ids, const at::Tensor& token_type_ids,
                            const OptionalTensor& word_grad, const OptionalTensor& position_grad,
                            const OptionalTensor& type_grad) {
  const c10::DeviceGuard guard(grad.device());
  add_rows(grad, input_ids, word_grad);
  add_rows(grad, position_ids, position_grad);
  add_rows(grad, token_type_ids, type_grad);
}

}  // namespace finetune::kernels::cuda
