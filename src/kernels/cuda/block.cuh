#pragma once

#include "scalar.cuh"

#if defined(__CUDACC__)
#include <mma.h>

#include <type_traits>
#endif

/// What a kernel asks of the block of threads that executes it.
///
/// A kernel is a struct of its operands with `kThreads`, the number of threads of a block; `grid()`, the
/// blocks; `shared_bytes()`, the block's shared memory; and `operator()(Block&)`, what one thread does.
/// `Block` is `DeviceBlock` on the device and an emulation of it in the tests, so the tests prove the code
/// that runs.
namespace finetune::kernels::cuda {

constexpr int kWarpSize = 32;

/// Side of the square tiles that one warp multiplies.
constexpr int kMatrixSide = 16;

struct Grid {
  int64_t x = 1;
  int64_t y = 1;
  int64_t z = 1;
};

inline int64_t blocks_for(int64_t count, int64_t per_block) { return (count + per_block - 1) / per_block; }

/// How the left matrix of a product lies in memory, element (i, k) at [i * stride + k] or at [k * stride +
/// i].
enum class Left { kByRows, kByColumns };
/// How the right one does, element (k, j) at [k * stride + j] or at [j * stride + k].
enum class Right { kByRows, kByColumns };

template <typename T>
struct MatrixView {
  Span<T> data;
  int stride;

  FINETUNE_DEVICE T& at(int row, int col) const { return data[static_cast<int64_t>(row) * stride + col]; }
  FINETUNE_DEVICE MatrixView from(int row, int col) const {
    return {data.from(static_cast<int64_t>(row) * stride + col), stride};
  }
};

/// One lane's share of a 16 x 16 product in float32: 8 elements of a row of c.
template <Left kLeft, Right kRight, typename T>
FINETUNE_DEVICE void lane_product(const MatrixView<T>& a, const MatrixView<T>& b, const MatrixView<float>& c,
                                  int depth, bool accumulate, int lane) {
  const int row = lane / 2;
  const int first = lane % 2 * kPackSize;
  float sums[kPackSize];
  for (int j = 0; j < kPackSize; ++j) sums[j] = accumulate ? c.at(row, first + j) : 0.0f;
  for (int k = 0; k < depth; ++k) {
    const float factor = to_float(kLeft == Left::kByRows ? a.at(row, k) : a.at(k, row));
    for (int j = 0; j < kPackSize; ++j) {
      sums[j] += factor * to_float(kRight == Right::kByRows ? b.at(k, first + j) : b.at(first + j, k));
    }
  }
  for (int j = 0; j < kPackSize; ++j) c.at(row, first + j) = sums[j];
}

#if defined(__CUDACC__)

template <typename T>
struct TensorCoreType;
template <>
struct TensorCoreType<Bfloat16> {
  using type = __nv_bfloat16;
};
template <>
struct TensorCoreType<Float16> {
  using type = __half;
};

class DeviceBlock {
 public:
  FINETUNE_DEVICE int64_t x() const { return blockIdx.x; }
  FINETUNE_DEVICE int64_t y() const { return blockIdx.y; }
  FINETUNE_DEVICE int64_t z() const { return blockIdx.z; }
  FINETUNE_DEVICE int thread() const { return static_cast<int>(threadIdx.x); }

  /// Waits for all threads of the block. Every one of them must come here.
  FINETUNE_DEVICE void sync() const { __syncthreads(); }

  /// The value that the thread whose lane differs in the bits `mask` passed. All 32 lanes must take part.
  FINETUNE_DEVICE float shuffle_xor(float value, int mask) const {
    return __shfl_xor_sync(0xFFFFFFFFu, value, mask);
  }

  /// `count` elements of shared memory, `offset` bytes from its start; uninitialised.
  template <typename T>
  FINETUNE_DEVICE Span<T> shared(int64_t offset, int64_t count) const {
    extern __shared__ __align__(128) unsigned char memory[];
    return {reinterpret_cast<T*>(memory + offset), count};
  }

  /// c [16, 16] = a [16, depth] b [depth, 16], added to c if `accumulate`, by one warp. All three lie in
  /// shared memory at multiples of 32 bytes; depth is a multiple of 16, strides are of 8. In half precision
  /// by tensor cores, sums in float32.
  template <Left kLeft, Right kRight, typename T>
  FINETUNE_DEVICE void warp_product(const MatrixView<T>& a, const MatrixView<T>& b,
                                    const MatrixView<float>& c, int depth, bool accumulate) const {
    namespace wmma = nvcuda::wmma;
    using Element = typename TensorCoreType<T>::type;
    using ALayout = std::conditional_t<kLeft == Left::kByRows, wmma::row_major, wmma::col_major>;
    using BLayout = std::conditional_t<kRight == Right::kByRows, wmma::row_major, wmma::col_major>;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, Element, ALayout> a_part;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, Element, BLayout> b_part;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums;
    __syncwarp();
    if (accumulate) {
      wmma::load_matrix_sync(sums, c.data.data, c.stride, wmma::mem_row_major);
    } else {
      wmma::fill_fragment(sums, 0.0f);
    }
    const auto* a_data = reinterpret_cast<const Element*>(a.data.data);
    const auto* b_data = reinterpret_cast<const Element*>(b.data.data);
    for (int k = 0; k < depth; k += kMatrixSide) {
      wmma::load_matrix_sync(a_part, a_data + (kLeft == Left::kByRows ? k : k * a.stride), a.stride);
      wmma::load_matrix_sync(b_part, b_data + (kRight == Right::kByRows ? k * b.stride : k), b.stride);
      wmma::mma_sync(sums, a_part, b_part, sums);
    }
    wmma::store_matrix_sync(c.data.data, sums, c.stride, wmma::mem_row_major);
    __syncwarp();
  }

  template <Left kLeft, Right kRight>
  FINETUNE_DEVICE void warp_product(const MatrixView<float>& a, const MatrixView<float>& b,
                                    const MatrixView<float>& c, int depth, bool accumulate) const {
    __syncwarp();
    lane_product<kLeft, kRight>(a, b, c, depth, accumulate, thread() % kWarpSize);
    __syncwarp();
  }
};

#endif

/// The sum of `value` over the 32 lanes, the same in all of them.
template <typename Block>
FINETUNE_DEVICE float warp_sum(const Block& block, float value) {
  for (int mask = kWarpSize / 2; mask > 0; mask /= 2) value += block.shuffle_xor(value, mask);
  return value;
}

}  // namespace finetune::kernels::cuda
