#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define FINETUNE_DEVICE __device__ inline
#else
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <stdexcept>
#include <string>
#define FINETUNE_DEVICE inline
#endif

/// Numbers and memory as the kernels see them. The files `*.cuh` are compiled twice: by nvcc for the device,
/// and by the host's compiler for the tests, which execute the same kernels with every access checked.
namespace finetune::kernels::cuda {

/// The low precisions as plain bits: types of one name and layout for both compilers.
struct Bfloat16 {
  uint16_t bits;
};
struct Float16 {
  uint16_t bits;
};

FINETUNE_DEVICE float to_float(float value) { return value; }

FINETUNE_DEVICE float to_float(Bfloat16 value) {
#if defined(__CUDACC__)
  return __bfloat162float(__ushort_as_bfloat16(value.bits));
#else
  return c10::detail::f32_from_bits(value.bits);
#endif
}

FINETUNE_DEVICE float to_float(Float16 value) {
#if defined(__CUDACC__)
  return __half2float(__ushort_as_half(value.bits));
#else
  return c10::detail::fp16_ieee_to_fp32_value(value.bits);
#endif
}

/// Rounds to the nearest value of T, ties to even.
template <typename T>
FINETUNE_DEVICE T from_float(float value);

template <>
FINETUNE_DEVICE float from_float<float>(float value) {
  return value;
}

template <>
FINETUNE_DEVICE Bfloat16 from_float<Bfloat16>(float value) {
#if defined(__CUDACC__)
  return {__bfloat16_as_ushort(__float2bfloat16_rn(value))};
#else
  return {c10::detail::round_to_nearest_even(value)};
#endif
}

template <>
FINETUNE_DEVICE Float16 from_float<Float16>(float value) {
#if defined(__CUDACC__)
  return {__half_as_ushort(__float2half_rn(value))};
#else
  return {c10::detail::fp16_ieee_from_fp32_value(value)};
#endif
}

/// `size` elements from `data` on. An index out of range throws `std::out_of_range` under emulation; the
/// device does not look.
template <typename T>
struct Span {
  T* data = nullptr;
  int64_t size = 0;

  FINETUNE_DEVICE T& operator[](int64_t index) const {
#if !defined(__CUDACC__)
    if (index < 0 || index >= size) {
      throw std::out_of_range("kernel: index " + std::to_string(index) + " of an operand of " +
                              std::to_string(size) + " elements");
    }
#endif
    return data[index];
  }
  FINETUNE_DEVICE Span from(int64_t offset) const { return {data + offset, size - offset}; }
  FINETUNE_DEVICE bool given() const { return data != nullptr; }
};

constexpr int kPackSize = 8;

/// Consecutive values in registers: as many as one call of the dropout's generator serves.
struct Pack {
  float value[kPackSize];
};

/// How many of the `cols` columns a pack that begins at column `col` holds; 0 where it begins past the end.
FINETUNE_DEVICE int pack_count(int64_t col, int64_t cols) {
  const int64_t rest = cols - col;
  return rest >= kPackSize ? kPackSize : rest > 0 ? static_cast<int>(rest) : 0;
}

#if defined(__CUDACC__)
/// A whole pack of T as it lies in memory, moved 16 bytes at a time.
template <typename T>
struct alignas(16) PackBits {
  T value[kPackSize];
};

FINETUNE_DEVICE bool is_aligned(const void* address) {
  return (reinterpret_cast<uintptr_t>(address) & 15u) == 0;
}
#endif

/// `count` values from `index` on; the others are 0.
template <typename T>
FINETUNE_DEVICE Pack load_pack(Span<const T> from, int64_t index, int count) {
  Pack pack;
#if defined(__CUDACC__)
  if (count == kPackSize && is_aligned(from.data + index)) {
    const PackBits<T> bits = *reinterpret_cast<const PackBits<T>*>(from.data + index);
#pragma unroll
    for (int i = 0; i < kPackSize; ++i) pack.value[i] = to_float(bits.value[i]);
    return pack;
  }
#endif
  for (int i = 0; i < kPackSize; ++i) pack.value[i] = i < count ? to_float(from[index + i]) : 0.0f;
  return pack;
}

template <typename T>
FINETUNE_DEVICE Pack load_pack(Span<T> from, int64_t index, int count) {
  return load_pack(Span<const T>{from.data, from.size}, index, count);
}

/// Stores the first `count` values, rounded to T.
template <typename T>
FINETUNE_DEVICE void store_pack(const Pack& pack, Span<T> to, int64_t index, int count) {
#if defined(__CUDACC__)
  if (count == kPackSize && is_aligned(to.data + index)) {
    PackBits<T> bits;
#pragma unroll
    for (int i = 0; i < kPackSize; ++i) bits.value[i] = from_float<T>(pack.value[i]);
    *reinterpret_cast<PackBits<T>*>(to.data + index) = bits;
    return;
  }
#endif
  for (int i = 0; i < count; ++i) to[index + i] = from_float<T>(pack.value[i]);
}

}  // namespace finetune::kernels::cuda
