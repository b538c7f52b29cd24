#pragma once

#include <ATen/cpu/vec/vec.h>

#include <cstdint>
#include <type_traits>

/// Float vectors of the instruction set that this file is being compiled for. Everything lies in a namespace
/// of that set's name: the same inline function compiled twice must not be one symbol to the linker.
namespace finetune::kernels::cpu {
inline namespace CPU_CAPABILITY {

using Vec = at::vec::Vectorized<float>;
using IntVec = at::vec::Vectorized<int32_t>;
constexpr int64_t kWidth = Vec::size();

/// `kWidth` values of an activation's type, as floats.
template <typename T>
inline Vec load_values(const T* p) {
  if constexpr (std::is_same_v<T, float>) {
    return Vec::loadu(p);
  } else {
#if defined(CPU_CAPABILITY_AVX512)
    const __m256i raw = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    __m512 values;
#elif defined(CPU_CAPABILITY_AVX2)
    const __m128i raw = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    __m256 values;
#endif
#if defined(CPU_CAPABILITY_AVX512) || defined(CPU_CAPABILITY_AVX2)
    if constexpr (std::is_same_v<T, c10::BFloat16>) {
      at::vec::cvtbf16_fp32(raw, values);
    } else {
      at::vec::cvtfp16_fp32(raw, values);
    }
    return values;
#else
    float values[kWidth];
    for (int64_t i = 0; i < kWidth; ++i) values[i] = static_cast<float>(p[i]);
    return Vec::loadu(values);
#endif
  }
}

/// Floats as an activation's type, rounded to nearest even.
template <typename T>
inline void store_values(const Vec& v, T* p) {
  if constexpr (std::is_same_v<T, float>) {
    v.store(p);
  } else {
#if defined(CPU_CAPABILITY_AVX512) || defined(CPU_CAPABILITY_AVX2)
    const auto raw = [&] {
      if constexpr (std::is_same_v<T, c10::BFloat16>) {
        return at::vec::cvtfp32_bf16(v);
      } else {
        return at::vec::cvtfp32_fp16(v);
      }
    }();
    __builtin_memcpy(p, &raw, sizeof(raw));
#else
    float values[kWidth];
    v.store(values);
    for (int64_t i = 0; i < kWidth; ++i) p[i] = static_cast<T>(values[i]);
#endif
  }
}

/// A whole vector of memory. `only` is `v` in the vector's own lanes and `others` elsewhere.
struct Whole {
  template <typename T>
  Vec load(const T* p) const {
    return load_values(p);
  }
  template <typename T>
  void store(const Vec& v, T* p) const {
    store_values(v, p);
  }
  Vec only(const Vec& v, float = 0.0f) const { return v; }
};

/// The first `count` values of a vector; the others load as 0 and are not stored.
struct Part {
  int count;
  template <typename T>
  Vec load(const T* p) const {
    if constexpr (std::is_same_v<T, float>) {
      return Vec::loadu(p, count);
    } else {
      T values[kWidth] = {};
      __builtin_memcpy(values, p, static_cast<size_t>(count) * sizeof(T));
      return load_values(values);
    }
  }
  template <typename T>
  void store(const Vec& v, T* p) const {
    if constexpr (std::is_same_v<T, float>) {
      v.store(p, count);
    } else {
      T values[kWidth];
      store_values(v, values);
      __builtin_memcpy(p, values, static_cast<size_t>(count) * sizeof(T));
    }
  }
  Vec only(const Vec& v, float others = 0.0f) const { return Vec::set(Vec(others), v, count); }
};

/// f(offset, part) over `count` floats.
template <typename F>
inline __attribute__((always_inline)) void for_vectors(int64_t count, const F& f) {
  int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) f(i, Whole{});
  if (i < count) f(i, Part{static_cast<int>(count - i)});
}

/// Folds the lanes in halves: the same order of additions on every compiler.
template <typename Fold>
inline float fold_lanes(const Vec& v, const Fold& fold) {
  alignas(64) float lanes[kWidth];
  v.store(lanes);
  for (int64_t half = kWidth / 2; half > 0; half /= 2) {
    for (int64_t i = 0; i < half; ++i) lanes[i] = fold(lanes[i], lanes[i + half]);
  }
  return lanes[0];
}

inline float sum(const Vec& v) {
  return fold_lanes(v, [](float a, float b) { return a + b; });
}

inline float maximum_of(const Vec& v) {
  return fold_lanes(v, [](float a, float b) { return a > b ? a : b; });
}

/// e^x within 2 ulp. Results below the smallest normal number are that number; NaN stays NaN.
inline Vec exp(const Vec& x) {
  const Vec clamped = at::vec::clamp(x, Vec(-87.33654f), Vec(88.72283f));
  const Vec n = (clamped * Vec(1.44269504f)).round();
  Vec r = at::vec::fnmadd(n, Vec(0.693359375f), clamped);
  r = at::vec::fnmadd(n, Vec(-2.12194440e-4f), r);
  Vec poly = Vec(1.9875691500e-4f);  // Cephes' expf
  poly = at::vec::fmadd(poly, r, Vec(1.3981999507e-3f));
  poly = at::vec::fmadd(poly, r, Vec(8.3334519073e-3f));
  poly = at::vec::fmadd(poly, r, Vec(4.1665795894e-2f));
  poly = at::vec::fmadd(poly, r, Vec(1.6666665459e-1f));
  poly = at::vec::fmadd(poly, r, Vec(5.0000001201e-1f));
  const Vec result = at::vec::fmadd(poly * r, r, r + Vec(1.0f));
  // Twice half the power: 2^128 itself is no float.
  const IntVec exponent = at::vec::convert_to_int_of_same_size(n - Vec(1.0f));
  const IntVec power = (exponent + IntVec(127)) << IntVec(23);
  return result * at::vec::cast<float>(power) * Vec(2.0f);
}

}  // namespace CPU_CAPABILITY
}  // namespace finetune::kernels::cpu
