#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace finetune {

/// The dtype's name in a safetensors header ("F32"); empty for one that the format, or this program, does not
/// know.
std::string_view safetensors_dtype_name(at::ScalarType dtype);
std::optional<at::ScalarType> safetensors_dtype(std::string_view name);
/// Where the Python library puts tensors of this dtype in a file: widest first, so that each is aligned to
/// its element.
int safetensors_dtype_rank(at::ScalarType dtype);
/// "F64, F32, ...": for messages.
std::string safetensors_dtype_names();

/// "[2, 3]".
std::string shape_text(at::IntArrayRef sizes);

/// Hands the tensor's bytes, row-major, to `sink` in blocks of at most a few MiB. Any device, any strides;
/// synchronises.
void stream_bytes(const at::Tensor& tensor, const std::function<void(const void*, size_t)>& sink);

/// Fills `destination` (any device, any strides) from row-major bytes of `dtype`, which need not be aligned.
/// Synchronises.
void fill_from_bytes(const std::byte* bytes, at::ScalarType dtype, const at::Tensor& destination);

}  // namespace finetune
