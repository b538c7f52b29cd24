#include "tensor_bytes.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace finetune {
namespace {

constexpr size_t kStagingBytes = size_t{4} << 20;
constexpr size_t kBlockBytes = size_t{1} << 20;  // stays in the cache between hashing and writing

struct DtypeName {
  at::ScalarType dtype;
  std::string_view name;
};

// In the order in which the Python library sorts them (the Rust enum `Dtype`, descending).
constexpr std::array<DtypeName, 10> kDtypes{{{at::ScalarType::Long, "I64"},
                                             {at::ScalarType::Double, "F64"},
                                             {at::ScalarType::Float, "F32"},
                                             {at::ScalarType::Int, "I32"},
                                             {at::ScalarType::BFloat16, "BF16"},
                                             {at::ScalarType::Half, "F16"},
                                             {at::ScalarType::Short, "I16"},
                                             {at::ScalarType::Char, "I8"},
                                             {at::ScalarType::Byte, "U8"},
                                             {at::ScalarType::Bool, "BOOL"}}};

using PieceVisitor = std::function<void(const at::Tensor& piece, int64_t first_element)>;

/// Visits `tensor` in row-major order as views of at most `max_elements` elements.
void for_each_piece(const at::Tensor& tensor, int64_t max_elements, int64_t first_element,
                    const PieceVisitor& visit) {
  const int64_t numel = tensor.numel();
  if (numel == 0) return;
  if (numel <= max_elements) return visit(tensor, first_element);
  if (tensor.is_contiguous() && tensor.dim() > 1) {
    return for_each_piece(tensor.view(-1), max_elements, first_element, visit);
  }
  const int64_t row = numel / tensor.size(0);
  if (row > max_elements) {
    for (int64_t i = 0; i < tensor.size(0); ++i) {
      for_each_piece(tensor.select(0, i), max_elements, first_element + i * row, visit);
    }
    return;
  }
  const int64_t rows = max_elements / row;
  for (int64_t i = 0; i < tensor.size(0); i += rows) {
    visit(tensor.narrow(0, i, std::min(rows, tensor.size(0) - i)), first_element + i * row);
  }
}

at::Tensor host_staging(at::ScalarType dtype, int64_t elements) {
  return at::empty({elements}, at::TensorOptions().dtype(dtype).device(at::kCPU));
}

}  // namespace

std::string_view safetensors_dtype_name(at::ScalarType dtype) {
  const int rank = safetensors_dtype_rank(dtype);
  return rank < static_cast<int>(kDtypes.size()) ? kDtypes[static_cast<size_t>(rank)].name
                                                 : std::string_view();
}

std::optional<at::ScalarType> safetensors_dtype(std::string_view name) {
  for (const auto& known : kDtypes) {
    if (known.name == name) return known.dtype;
  }
  return std::nullopt;
}

int safetensors_dtype_rank(at::ScalarType dtype) {
  const auto* found = std::find_if(kDtypes.begin(), kDtypes.end(),
                                   [&](const DtypeName& known) { return known.dtype == dtype; });
  return static_cast<int>(found - kDtypes.begin());
}

std::string safetensors_dtype_names() {
  std::string text;
  for (const auto& known : kDtypes) {
    if (!text.empty()) text += ", ";
    text += known.name;
  }
  return text;
}

std::string shape_text(at::IntArrayRef sizes) {
  std::string text = "[";
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(sizes[i]);
  }
  return text + "]";
}

void stream_bytes(const at::Tensor& tensor, const std::function<void(const void*, size_t)>& sink) {
  const at::NoGradGuard no_grad;
  if (tensor.device().is_cpu() && tensor.is_contiguous()) {
    const auto* bytes = static_cast<const char*>(tensor.const_data_ptr());
    for (size_t left = tensor.nbytes(); left > 0;) {
      const size_t count = std::min(left, kBlockBytes);
      sink(bytes, count);
      bytes += count;
      left -= count;
    }
    return;
  }
  const auto capacity = static_cast<int64_t>(kStagingBytes / tensor.element_size());
  const at::Tensor staging = host_staging(tensor.scalar_type(), std::min(capacity, tensor.numel()));
  for_each_piece(tensor, capacity, 0, [&](const at::Tensor& piece, int64_t) {
    const at::Tensor block = staging.narrow(0, 0, piece.numel());
    block.view(piece.sizes()).copy_(piece);
    sink(block.const_data_ptr(), block.nbytes());
  });
}

void fill_from_bytes(const std::byte* bytes, at::ScalarType dtype, const at::Tensor& destination) {
  const at::NoGradGuard no_grad;
  const bool same_dtype = destination.scalar_type() == dtype;
  if (same_dtype && destination.device().is_cpu() && destination.is_contiguous()) {
    if (destination.numel() > 0) std::memcpy(destination.mutable_data_ptr(), bytes, destination.nbytes());
    return;
  }
  const size_t element_size = c10::elementSize(dtype);
  const auto capacity = static_cast<int64_t>(
      kStagingBytes / std::max(element_size, static_cast<size_t>(destination.element_size())));
  const int64_t elements = std::min(capacity, destination.numel());
  const at::Tensor staging = host_staging(dtype, elements);
  // Converted on the host: a copy that changes device and dtype at once makes the device allocate a buffer.
  const at::Tensor converted = same_dtype ? staging : host_staging(destination.scalar_type(), elements);
  for_each_piece(destination, capacity, 0, [&](const at::Tensor& piece, int64_t first_element) {
    const at::Tensor block = staging.narrow(0, 0, piece.numel());
    std::memcpy(block.mutable_data_ptr(), bytes + static_cast<size_t>(first_element) * element_size,
                block.nbytes());
    const at::Tensor ready = converted.narrow(0, 0, piece.numel());
    if (!same_dtype) ready.copy_(block);
    piece.copy_(ready.view(piece.sizes()));
  });
}

void copy_tensor(const at::Tensor& source, const at::Tensor& destination) {
  const at::Tensor rows = source.contiguous();
  fill_from_bytes(static_cast<const std::byte*>(rows.const_data_ptr()), rows.scalar_type(), destination);
}

}  // namespace finetune
