#pragma once

#include <ATen/cpu/vec/vec.h>

#include <cstdint>

/// Float vectors of the instruction set that this file is being compiled for. Everything lies in a namespace
/// of that set's name: the same inline function compiled twice must not be one symbol to the linker.
namespace finetune::kernels::cpu {
inline namespace CPU_CAPABILITY {

using Vec = at::vec::Vectorized<float>;
using IntVec = at::vec::Vectorized<int32_t>;
constexpr int64_t kWidth = Vec::size();

/// A whole vector of memory. `only` is `v` in the vector's own lanes and `others` elsewhere.
struct Whole {
  Vec load(const float* p) const { return Vec::loadu(p); }
  void store(const Vec& v, float* p) const { v.store(p); }
  Vec only(const Vec& v, float = 0.0f) const { return v; }
};

/// The first `count` floats of a vector; the others load as 0 and are not stored.
struct Part {
  int count;
  Vec load(const float* p) const { return Vec::loadu(p, count); }
  void store(const Vec& v, float* p) const { v.store(p, count); }
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
