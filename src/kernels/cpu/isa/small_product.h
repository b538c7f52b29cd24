#pragma once

#include <algorithm>

#include "simd.h"

/// Products of matrices that fit the first cache levels: too small for a library call to pay.
namespace finetune::kernels::cpu {
inline namespace CPU_CAPABILITY {

/// A matrix of any layout: element (i, k) lies at data[i * row_stride + k * col_stride].
struct Strided {
  const float* data;
  int64_t row_stride;
  int64_t col_stride;
};

// Accumulators, one row of b and one broadcast must fit the registers: 16 with AVX2, 32 with AVX-512.
constexpr int kBlockRows = 6;
#if defined(CPU_CAPABILITY_AVX512)
constexpr int kBlockVectors = 4;
#else
constexpr int kBlockVectors = 2;
#endif

template <int kRows, int kVectors>
inline void product_block(const Strided& a, const float* b, int64_t b_stride, int64_t depth, float* c,
                          int64_t c_stride, bool accumulate) {
  Vec sums[kRows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      sums[i][v] = accumulate ? Vec::loadu(c + i * c_stride + v * kWidth) : Vec(0.0f);
    }
  }
  const float* a_column = a.data;
  for (int64_t k = 0; k < depth; ++k, a_column += a.col_stride, b += b_stride) {
    Vec row[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) row[v] = Vec::loadu(b + v * kWidth);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const Vec factor(a_column[i * a.row_stride]);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sums[i][v] = at::vec::fmadd(factor, row[v], sums[i][v]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sums[i][v].store(c + i * c_stride + v * kWidth);
  }
}

template <int kVectors>
inline void product_columns(Strided a, const float* b, int64_t b_stride, int64_t rows, int64_t depth,
                            float* c, int64_t c_stride, bool accumulate) {
  for (; rows >= kBlockRows; rows -= kBlockRows) {
    product_block<kBlockRows, kVectors>(a, b, b_stride, depth, c, c_stride, accumulate);
    a.data += kBlockRows * a.row_stride;
    c += kBlockRows * c_stride;
  }
  switch (rows) {
    case 5:
      return product_block<5, kVectors>(a, b, b_stride, depth, c, c_stride, accumulate);
    case 4:
      return product_block<4, kVectors>(a, b, b_stride, depth, c, c_stride, accumulate);
    case 3:
      return product_block<3, kVectors>(a, b, b_stride, depth, c, c_stride, accumulate);
    case 2:
      return product_block<2, kVectors>(a, b, b_stride, depth, c, c_stride, accumulate);
    case 1:
      return product_block<1, kVectors>(a, b, b_stride, depth, c, c_stride, accumulate);
    default:
      return;
  }
}

/// c [rows, cols] = a [rows, depth] b [depth, cols], added to c if `accumulate`. cols is a multiple of
/// kWidth.
inline void small_product(const Strided& a, const float* b, int64_t b_stride, int64_t rows, int64_t cols,
                          int64_t depth, float* c, int64_t c_stride, bool accumulate = false) {
  int64_t col = 0;
  for (; col + kBlockVectors * kWidth <= cols; col += kBlockVectors * kWidth) {
    product_columns<kBlockVectors>(a, b + col, b_stride, rows, depth, c + col, c_stride, accumulate);
  }
  for (; col < cols; col += kWidth) {
    product_columns<1>(a, b + col, b_stride, rows, depth, c + col, c_stride, accumulate);
  }
}

}  // namespace CPU_CAPABILITY
}  // namespace finetune::kernels::cpu
