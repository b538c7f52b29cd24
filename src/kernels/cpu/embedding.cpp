#include "kernels.h"
#include "rows.h"

namespace finetune::kernels::cpu {
namespace {

/// Columns that one thread owns at least: a cache line, so that no two threads write the same.
constexpr int64_t kColumnsPerChunk = 16;

const int32_t* ids_data(const at::Tensor& ids, int64_t num_tokens, const char* op, const char* name) {
  TORCH_CHECK(ids.scalar_type() == at::kInt && ids.is_contiguous() && ids.numel() == num_tokens, op, ": ",
              name, " must hold ", num_tokens, " contiguous int32 values, found ", ids.scalar_type(),
              " of shape ", ids.sizes());
  return ids.const_data_ptr<int32_t>();
}

/// A table [rows, cols] and the row of it that each token takes.
struct Lookup {
  float* table;
  int64_t rows;
  const int32_t* ids;
  const char* name;

  float* row(int64_t token, int64_t cols) const {
    const int64_t id = ids[token];
    TORCH_CHECK_INDEX(id >= 0 && id < rows, "embedding: ", name, " id ", id, " of token ", token,
                      " is not in the table of ", rows, " rows");
    return table + id * cols;
  }
};

Lookup lookup(const OptionalTensor& table, const int32_t* ids, int64_t cols, const char* name) {
  if (!table) return {nullptr, 0, nullptr, name};
  check_float_matrix(*table, "embedding_sum", name);
  TORCH_CHECK(table->size(1) == cols, "embedding_sum: the ", name, " table must have ", cols,
              " columns, found ", table->size(1));
  return {const_cast<float*>(table->const_data_ptr<float>()), table->size(0), ids, name};
}

}  // namespace

at::Tensor embedding_sum(const at::Tensor& input_ids, const at::Tensor& position_ids,
                         const at::Tensor& token_type_ids, const at::Tensor& word, const at::Tensor& position,
                         const OptionalTensor& type) {
  constexpr auto kOp = "embedding_sum";
  const int64_t num_tokens = input_ids.numel();
  const int64_t cols = word.size(1);
  const Lookup words = lookup(word, ids_data(input_ids, num_tokens, kOp, "input_ids"), cols, "word");
  const Lookup positions =
      lookup(position, ids_data(position_ids, num_tokens, kOp, "position_ids"), cols, "position");
  const Lookup types = lookup(
      type, type ? ids_data(token_type_ids, num_tokens, kOp, "token_type_ids") : nullptr, cols, "token type");
  at::Tensor y = at::empty({num_tokens, cols}, word.options());
  float* out = y.mutable_data_ptr<float>();
  parallel_rows(num_tokens, [&](int64_t first, int64_t rows) {
    for (int64_t token = first; token < first + rows; ++token) {
      isa_kernels().embedding_row(words.row(token, cols), positions.row(token, cols),
                                  type ? types.row(token, cols) : nullptr, out + token * cols, cols);
    }
  });
  return y;
}

void embedding_sum_backward(const at::Tensor& grad, const at::Tensor& input_ids,
                            const at::Tensor& position_ids, const at::Tensor& token_type_ids,
                            const OptionalTensor& word_grad, const OptionalTensor& position_grad,
                            const OptionalTensor& type_grad) {
  constexpr auto kOp = "embedding_sum_backward";
  check_float_matrix(grad, kOp, "grad");
  const int64_t num_tokens = grad.size(0);
  const int64_t cols = grad.size(1);
  const Lookup tables[] = {
      lookup(word_grad, ids_data(input_ids, num_tokens, kOp, "input_ids"), cols, "word"),
      lookup(position_grad, ids_data(position_ids, num_tokens, kOp, "position_ids"), cols, "position"),
      lookup(type_grad, type_grad ? ids_data(token_type_ids, num_tokens, kOp, "token_type_ids") : nullptr,
             cols, "token type")};
  const float* in = grad.const_data_ptr<float>();
  // Tokens may share rows of a table, columns they never do: each thread adds all tokens' gradients to its
  // own columns, in the tokens' order.
  const int64_t num_chunks = (cols + kColumnsPerChunk - 1) / kColumnsPerChunk;
  parallel_for(0, num_chunks, 1, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kColumnsPerChunk;
    const int64_t count = std::min(end * kColumnsPerChunk, cols) - first;
    for (const Lookup& table : tables) {
      if (table.table == nullptr) continue;
      for (int64_t token = 0; token < num_tokens; ++token) {
        isa_kernels().add_to(in + token * cols + first, table.row(token, cols) + first, count);
      }
    }
  });
}

}  // namespace finetune::kernels::cpu
