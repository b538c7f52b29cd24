#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>

#include <optional>

#include "dropout.cuh"
#include "rows.cuh"

/// From tensors to the kernels' operands, checked on the way.
namespace finetune::kernels::cuda {

template <typename T>
inline constexpr at::ScalarType kScalarType = c10::CppTypeToScalarType<T>::value;
template <>
inline constexpr at::ScalarType kScalarType<Bfloat16> = at::kBFloat16;
template <>
inline constexpr at::ScalarType kScalarType<Float16> = at::kHalf;

/// All of a contiguous tensor of T.
template <typename T>
Span<T> span(const at::Tensor& tensor, const char* op, const char* name) {
  TORCH_CHECK(tensor.scalar_type() == kScalarType<std::remove_const_t<T>> && tensor.is_contiguous(), op, ": ",
              name, " must be contiguous ", kScalarType<std::remove_const_t<T>>, ", found ",
              tensor.scalar_type(), " of shape ", tensor.sizes(), " and strides ", tensor.strides());
  return {static_cast<T*>(tensor.data_ptr()), tensor.numel()};
}

/// The same of a tensor with `size` elements.
template <typename T>
Span<T> span(const at::Tensor& tensor, int64_t size, const char* op, const char* name) {
  TORCH_CHECK(tensor.numel() == size, op, ": ", name, " must hold ", size, " values, found shape ",
              tensor.sizes());
  return span<T>(tensor, op, name);
}

/// Not given where there is no tensor.
template <typename T>
Span<T> optional_span(const std::optional<at::Tensor>& tensor, int64_t size, const char* op,
                      const char* name) {
  return tensor ? span<T>(*tensor, size, op, name) : Span<T>{};
}

/// Activations [rows, cols].
inline void check_activations(const at::Tensor& x, const char* op, const char* name) {
  TORCH_CHECK(x.dim() == 2 && x.is_contiguous(), op, ": ", name, " must be a contiguous matrix, found shape ",
              x.sizes());
}

/// Calls f with a value of the activations' type.
template <typename F>
auto with_activation_type(const at::Tensor& x, const char* op, const F& f) {
  switch (x.scalar_type()) {
    case at::kBFloat16:
      return f(Bfloat16{});
    case at::kHalf:
      return f(Float16{});
    default:
      TORCH_CHECK(x.scalar_type() == at::kFloat, op,
                  ": activations must be float32, bfloat16 or float16, found ", x.scalar_type());
      return f(float{});
  }
}

/// The draw of one site; see `kernels::Dropout`.
DropoutSite dropout_site(double probability, int64_t site, const std::optional<at::Tensor>& rng,
                         const std::optional<at::Tensor>& token_keys, int64_t num_tokens, const char* op);

/// The sums over rows that a backward pass wants: up to `kMostSums` targets [cols], nullopt for those that it
/// does not.
class RowSums {
 public:
  RowSums(int64_t rows, int64_t cols, std::initializer_list<std::optional<at::Tensor>> targets,
          c10::Device device, const char* op);

  int64_t chunk_rows() const { return chunk_rows_; }
  /// [chunks, number of targets, cols] for the kernel to fill; not given where no target is.
  Span<float> partial_sums() const;
  /// Adds them to the targets.
  void add() const;

 private:
  AddPartialSums kernel_ = {};
  int64_t chunk_rows_;
  at::Tensor memory_;
};

}  // namespace finetune::kernels::cuda
