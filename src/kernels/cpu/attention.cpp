#include <vector>

#include "kernels.h"
#include "rows.h"

namespace finetune::kernels::cpu {
namespace {

/// Work of a tile beyond its products, in keys: packing, unpacking and the loops' starts.
constexpr int64_t kTileOverhead = 64;

template <typename T>
AttentionShape<T> attention_shape(const at::Tensor& qkv, const at::Tensor& qkv_bias, int64_t num_heads,
                                  double scale, double probability, int64_t site, const OptionalTensor& rng,
                                  const OptionalTensor& token_keys, const char* op) {
  check_activations(qkv, op, "qkv");
  check_float_vector(qkv_bias, qkv.size(1), op, "qkv_bias");
  TORCH_CHECK(num_heads > 0 && qkv.size(1) % (3 * num_heads) == 0, op, ": qkv's ", qkv.size(1),
              " columns are not three times a multiple of ", num_heads, " heads");
  AttentionShape<T> shape;
  shape.hidden = qkv.size(1) / 3;
  shape.head_size = shape.hidden / num_heads;
  shape.num_tokens = qkv.size(0);
  shape.scale = static_cast<float>(scale);
  shape.qkv = qkv.const_data_ptr<T>();
  shape.qkv_bias = qkv_bias.const_data_ptr<float>();
  shape.draw = make_draw(probability, site, rng, token_keys, shape.num_tokens, op);
  if (shape.draw.threshold != 0) shape.token_keys = token_keys->const_data_ptr<int64_t>();
  return shape;
}

/// The rows' bounds, checked: they lead to raw memory.
std::vector<int64_t> row_starts(const at::Tensor& cu_seqlens, int64_t num_tokens, int64_t max_length,
                                const char* op) {
  TORCH_CHECK(cu_seqlens.scalar_type() == at::kInt && cu_seqlens.is_contiguous() && cu_seqlens.numel() >= 1,
              op, ": cu_seqlens must hold contiguous int32 values, found ", cu_seqlens.scalar_type());
  const int32_t* values = cu_seqlens.const_data_ptr<int32_t>();
  std::vector<int64_t> starts(values, values + cu_seqlens.numel());
  TORCH_CHECK(starts.front() == 0 && starts.back() == num_tokens, op, ": cu_seqlens must run from 0 to ",
              num_tokens, ", found ", starts.front(), " to ", starts.back());
  for (size_t row = 0; row + 1 < starts.size(); ++row) {
    const int64_t length = starts[row + 1] - starts[row];
    TORCH_CHECK(length >= 0 && length <= max_length, op, ": row ", row, " has ", length,
                " tokens, max_length is ", max_length);
  }
  return starts;
}

/// f(tile, row, scratch) for every row that is not empty and every head. Threads get contiguous tiles of
/// about equal cost.
template <typename F>
void parallel_tiles(const std::vector<int64_t>& starts, int64_t num_heads, int64_t scratch_size, const F& f) {
  const auto num_rows = static_cast<int64_t>(starts.size()) - 1;
  const auto cost = [&](int64_t row) {
    const int64_t length = starts[static_cast<size_t>(row) + 1] - starts[static_cast<size_t>(row)];
    return length * (length + kTileOverhead);
  };
  int64_t total = 0;
  for (int64_t row = 0; row < num_rows; ++row) total += cost(row) * num_heads;
  const int64_t num_parts = num_threads();
  const at::Tensor scratch = at::empty({num_parts, scratch_size}, at::kFloat);
  float* memory = scratch.mutable_data_ptr<float>();
  parallel_for(0, num_parts, 1, [&](int64_t begin, int64_t end) {
    const int64_t from = total * begin / num_parts;
    const int64_t to = total * end / num_parts;
    int64_t position = 0;
    for (int64_t row = 0; row < num_rows && position < to; ++row) {
      const int64_t start = starts[static_cast<size_t>(row)];
      const int64_t length = starts[static_cast<size_t>(row) + 1] - start;
      const int64_t tile_cost = cost(row);
      for (int64_t head = 0; head < num_heads && tile_cost > 0; ++head, position += tile_cost) {
        if (position < from || position >= to) continue;
        f(AttentionTile{start, length, head}, row, memory + begin * scratch_size);
      }
    }
  });
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> packed_attention(const at::Tensor& qkv, const at::Tensor& qkv_bias,
                                                    const at::Tensor& cu_seqlens, int64_t max_length,
                                                    int64_t num_heads, double scale, double probability,
                                                    int64_t site, const OptionalTensor& rng,
                                                    const OptionalTensor& token_keys) {
  constexpr auto kOp = "packed_attention";
  const int64_t num_tokens = qkv.size(0);
  const std::vector<int64_t> starts = row_starts(cu_seqlens, num_tokens, max_length, kOp);
  at::Tensor output = at::empty({num_tokens, qkv.size(1) / 3}, qkv.options());
  at::Tensor log_sum_exp = at::empty({num_heads, num_tokens}, qkv.options().dtype(at::kFloat));
  float* lse = log_sum_exp.mutable_data_ptr<float>();
  with_activation_type(qkv, [&](auto zero) {
    using T = decltype(zero);
    const auto shape =
        attention_shape<T>(qkv, qkv_bias, num_heads, scale, probability, site, rng, token_keys, kOp);
    T* out = output.mutable_data_ptr<T>();
    const int64_t scratch_size =
        isa_kernels().attention_scratch(max_length, shape.head_size, /*backward=*/false);
    parallel_tiles(starts, num_heads, scratch_size, [&](const AttentionTile& tile, int64_t, float* scratch) {
      isa_kernels().of<T>().attention(shape, tile, scratch, out, lse + tile.head * num_tokens);
    });
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
  check_like(grad, output, kOp, "grad");
  const std::vector<int64_t> starts = row_starts(cu_seqlens, qkv.size(0), max_length, kOp);
  const auto num_rows = static_cast<int64_t>(starts.size()) - 1;
  const int64_t cols = qkv.size(1);
  at::Tensor qkv_grad = at::empty_like(qkv);
  const at::Tensor row_sums = at::empty({num_rows, cols}, qkv.options().dtype(at::kFloat));
  const float* lse = log_sum_exp.const_data_ptr<float>();
  float* sums = row_sums.mutable_data_ptr<float>();
  with_activation_type(qkv, [&](auto zero) {
    using T = decltype(zero);
    const auto shape =
        attention_shape<T>(qkv, qkv_bias, num_heads, scale, probability, site, rng, token_keys, kOp);
    const T* grad_data = grad.const_data_ptr<T>();
    const T* out = output.const_data_ptr<T>();
    T* qkv_grad_data = qkv_grad.mutable_data_ptr<T>();
    const int64_t scratch_size =
        isa_kernels().attention_scratch(max_length, shape.head_size, /*backward=*/true);
    parallel_tiles(starts, num_heads, scratch_size,
                   [&](const AttentionTile& tile, int64_t row, float* scratch) {
                     isa_kernels().of<T>().attention_backward(shape, tile, grad_data, out,
                                                              lse + tile.head * shape.num_tokens, scratch,
                                                              qkv_grad_data, sums + row * cols);
                   });
  });
  if (qkv_bias_grad) {
    for (int64_t row = 0; row < num_rows; ++row) {
      if (starts[static_cast<size_t>(row)] == starts[static_cast<size_t>(row) + 1]) continue;
      isa_kernels().add_to(sums + row * cols, qkv_bias_grad->mutable_data_ptr<float>(), cols);
    }
  }
  return qkv_grad;
}

}  // namespace finetune::kernels::cpu
