#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <optional>

#include "isa_kernels.h"
#include "parallel.h"

/// What the row-wise kernels share: checks, threads and sums over rows.
namespace finetune::kernels::cpu {

/// Rows whose contributions to a parameter's gradient are summed one after the other. The sums of blocks are
/// then added in their order, so the result does not depend on the number of threads.
constexpr int64_t kRowsPerBlock = 32;

inline void check_float_matrix(const at::Tensor& tensor, const char* op, const char* name) {
  TORCH_CHECK(tensor.scalar_type() == at::kFloat && tensor.dim() == 2 && tensor.is_contiguous(), op, ": ",
              name, " must be a contiguous float32 matrix, found ", tensor.scalar_type(), " of shape ",
              tensor.sizes());
}

/// Activations [rows, cols] of type float32, bfloat16 or float16.
inline void check_activations(const at::Tensor& tensor, const char* op, const char* name) {
  const at::ScalarType type = tensor.scalar_type();
  TORCH_CHECK((type == at::kFloat || type == at::kBFloat16 || type == at::kHalf) && tensor.dim() == 2 &&
                  tensor.is_contiguous(),
              op, ": ", name, " must be a contiguous float32, bfloat16 or float16 matrix, found ", type,
              " of shape ", tensor.sizes());
}

/// Activations laid out as `x`.
inline void check_like(const at::Tensor& tensor, const at::Tensor& x, const char* op, const char* name) {
  TORCH_CHECK(
      tensor.scalar_type() == x.scalar_type() && tensor.sizes() == x.sizes() && tensor.is_contiguous(), op,
      ": ", name, " must be contiguous ", x.scalar_type(), " of shape ", x.sizes(), ", found ",
      tensor.scalar_type(), " of shape ", tensor.sizes());
}

/// f(T{}), T being the type of the activations `x`.
template <typename F>
decltype(auto) with_activation_type(const at::Tensor& x, const F& f) {
  switch (x.scalar_type()) {
    case at::kBFloat16:
      return f(c10::BFloat16{});
    case at::kHalf:
      return f(c10::Half{});
    default:
      return f(float{});
  }
}

inline void check_float_vector(const at::Tensor& tensor, int64_t size, const char* op, const char* name) {
  TORCH_CHECK(tensor.scalar_type() == at::kFloat && tensor.is_contiguous() && tensor.numel() == size, op,
              ": ", name, " must hold ", size, " contiguous float32 values, found ", tensor.scalar_type(),
              " of shape ", tensor.sizes());
}

inline float* float_data(const std::optional<at::Tensor>& tensor) {
  return tensor ? tensor->mutable_data_ptr<float>() : nullptr;
}

/// The draw of one site; `rng` [2] int64 holds seed and step.
DropoutDraw make_draw(double probability, int64_t site, const std::optional<at::Tensor>& rng,
                      const std::optional<at::Tensor>& token_keys, int64_t num_tokens, const char* op);

/// f(first row, number of rows) over blocks of rows, threaded.
template <typename F>
void parallel_rows(int64_t num_rows, const F& f) {
  const int64_t num_blocks = (num_rows + kRowsPerBlock - 1) / kRowsPerBlock;
  parallel_for(0, num_blocks, 1, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kRowsPerBlock;
    f(first, std::min(end * kRowsPerBlock, num_rows) - first);
  });
}

/// f(first row, number of rows, sums [num_sums, cols] of this block, zeroed) over blocks of rows, threaded;
/// then adds the blocks' sums to `targets` ([cols] each; null ones are left out).
template <typename F>
void parallel_rows_with_sums(int64_t num_rows, int64_t cols, at::ArrayRef<float*> targets, const F& f) {
  const auto num_sums = static_cast<int64_t>(targets.size());
  const int64_t num_blocks = (num_rows + kRowsPerBlock - 1) / kRowsPerBlock;
  const at::Tensor sums = at::empty({num_blocks, num_sums, cols}, at::kFloat);
  float* data = sums.mutable_data_ptr<float>();
  parallel_for(0, num_blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      float* own = data + block * num_sums * cols;
      std::fill(own, own + num_sums * cols, 0.0f);
      const int64_t first = block * kRowsPerBlock;
      f(first, std::min(kRowsPerBlock, num_rows - first), own);
    }
  });
  for (int64_t i = 0; i < num_sums; ++i) {
    if (targets[static_cast<size_t>(i)] == nullptr) continue;
    for (int64_t block = 0; block < num_blocks; ++block) {
      isa_kernels().add_to(data + (block * num_sums + i) * cols, targets[static_cast<size_t>(i)], cols);
    }
  }
}

}  // namespace finetune::kernels::cpu
