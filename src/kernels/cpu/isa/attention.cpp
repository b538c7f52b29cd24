#include <algorithm>
#include <cmath>

#include "functions.h"
#include "keep_bits.h"
#include "small_product.h"

namespace finetune::kernels::cpu {
inline namespace CPU_CAPABILITY {
namespace {

/// Queries handled at once: their scores against all keys of a row stay in the second cache level up to about
/// 1,000 keys.
constexpr int64_t kQueryBlock = 64;

/// Sizes of one tile's padded matrices.
struct TileSizes {
  int64_t length;
  int64_t keys;     ///< length, rounded up to whole vectors
  int64_t size;     ///< head size
  int64_t width;    ///< head size, rounded up to whole vectors
  int64_t queries;  ///< of a block at most
  int64_t calls;    ///< of the generator for one query's mask

  TileSizes(int64_t row_length, int64_t head_size)
      : length(row_length),
        keys(round_up(row_length, kWidth)),
        size(head_size),
        width(round_up(head_size, kWidth)),
        queries(std::min(row_length, kQueryBlock)),
        calls(round_up(keys, 16) / kDropoutFeaturesPerCall) {}
};

/// Hands out pieces of one thread's scratch memory, each aligned to a cache line.
class Scratch {
 public:
  explicit Scratch(float* memory) : next_(memory) {}
  float* take(int64_t count) {
    float* piece = next_;
    next_ += round_up(count, kAlignment);
    return piece;
  }
  static constexpr int64_t kAlignment = 16;

 private:
  float* next_;
};

/// to [keys, width] = (from [length, size] + bias) * scale, padded with zeros.
template <typename T>
inline void pack(const T* from, int64_t from_stride, const float* bias, float scale, const TileSizes& sizes,
                 float* to) {
  const Vec factor(scale);
  for (int64_t row = 0; row < sizes.length; ++row, from += from_stride, to += sizes.width) {
    // The next head's part of the row: processors do not foresee strides of whole rows.
    __builtin_prefetch(from + sizes.size, 0, 2);
    __builtin_prefetch(from + 2 * sizes.size - 1, 0, 2);
    for_vectors(sizes.size, [&](int64_t c, auto part) {
      const Vec value = bias == nullptr ? part.load(from + c) : part.load(from + c) + part.load(bias + c);
      part.only(value * factor).store(to + c);
    });
  }
  std::fill(to, to + (sizes.keys - sizes.length) * sizes.width, 0.0f);
}

/// to [width, keys] = packed [keys, width] transposed.
inline void transpose(const float* packed, const TileSizes& sizes, float* to) {
  constexpr int kSide = static_cast<int>(kWidth);
  for (int64_t row = 0; row < sizes.keys; row += kWidth) {
    for (int64_t c = 0; c < sizes.width; c += kWidth) {
      at::vec::transpose_mxn<float, kSide, kSide>(packed + row * sizes.width + c, sizes.width,
                                                  to + c * sizes.keys + row, sizes.keys);
    }
  }
}

/// Asks for the lines of [length, size] that a tile is going to write at its end.
template <typename T>
inline void prefetch_for_writing(const T* rows, int64_t stride, const TileSizes& sizes) {
  for (int64_t row = 0; row < sizes.length; ++row, rows += stride) {
    __builtin_prefetch(rows, 1, 2);
    __builtin_prefetch(rows + sizes.size - 1, 1, 2);
  }
}

/// Masks of a block of queries: bits [queries, calls].
class TileMask {
 public:
  TileMask(Scratch& scratch, const TileSizes& sizes)
      : sizes_(sizes), calls_(round_up(sizes.queries * sizes.calls, kCallsAtOnce)) {
    word0_ = reinterpret_cast<uint32_t*>(scratch.take(calls_));
    word1_ = reinterpret_cast<uint32_t*>(scratch.take(calls_));
    bits_ = reinterpret_cast<uint8_t*>(scratch.take(calls_));
  }

  void draw(const DropoutDraw& draw, int64_t head, const int64_t* token_keys, int64_t queries) {
    int64_t call = 0;
    for (int64_t query = 0; query < queries; ++query) {
      const PhiloxWords first = dropout_counter(draw.step, draw.site, 0, token_keys[query], 0);
      for (int64_t block = 0; block < sizes_.calls; ++block, ++call) {
        word0_[call] = first.word[0] + static_cast<uint32_t>(block);
        word1_[call] = first.word[1];
      }
    }
    for (; call % kCallsAtOnce != 0; ++call) word0_[call] = word1_[call] = 0;
    keep_bits(draw, static_cast<uint32_t>(head), word0_, word1_, call, bits_);
  }
  const uint8_t* bits(int64_t query) const { return bits_ + query * sizes_.calls; }

 private:
  TileSizes sizes_;
  int64_t calls_;
  uint32_t* word0_;
  uint32_t* word1_;
  uint8_t* bits_;
};

/// Queries (scaled), keys and values of a tile, bias added.
struct PackedTile {
  float* q;
  float* k;
  float* v;
  float* transposed_k;

  PackedTile(Scratch& scratch, const TileSizes& sizes) {
    q = scratch.take(sizes.keys * sizes.width);
    k = scratch.take(sizes.keys * sizes.width);
    v = scratch.take(sizes.keys * sizes.width);
    transposed_k = scratch.take(sizes.keys * sizes.width);
  }

  template <typename T>
  void fill(const AttentionShape<T>& shape, const AttentionTile& tile, const TileSizes& sizes) {
    const int64_t stride = 3 * shape.hidden;
    const int64_t column = tile.head * sizes.size;
    const T* from = shape.qkv + tile.start * stride + column;
    const float* bias = shape.qkv_bias + column;
    pack(from, stride, bias, shape.scale, sizes, q);
    pack(from + shape.hidden, stride, bias + shape.hidden, 1.0f, sizes, k);
    pack(from + 2 * shape.hidden, stride, bias + 2 * shape.hidden, 1.0f, sizes, v);
    transpose(k, sizes, transposed_k);
  }
};

/// Turns scores of one query into unnormalised probabilities. Returns their sum; `largest` is the score taken
/// off.
inline float exponentials(float* scores, int64_t length, float& largest) {
  Vec highest(-INFINITY);
  for_vectors(length, [&](int64_t j, auto part) {
    // A NaN may get lost here; its exponential does not.
    highest = at::vec::clamp_min(part.only(part.load(scores + j), -INFINITY), highest);
  });
  largest = maximum_of(highest);
  Vec total(0.0f);
  for_vectors(length, [&](int64_t j, auto part) {
    const Vec e = part.only(exp(part.load(scores + j) - Vec(largest)));
    part.store(e, scores + j);
    total = total + e;
  });
  return sum(total);
}

/// rows [count, size] times `scale` into `to`, whose column sums are left in `sums`.
template <typename T>
inline void unpack(const float* rows, int64_t count, const TileSizes& sizes, float scale, T* to,
                   int64_t to_stride, float* sums) {
  const Vec factor(scale);
  std::fill(sums, sums + sizes.size, 0.0f);
  for (int64_t row = 0; row < count; ++row, rows += sizes.width, to += to_stride) {
    for_vectors(sizes.size, [&](int64_t c, auto part) {
      const Vec value = part.load(rows + c) * factor;
      part.store(value, to + c);
      part.store(part.load(sums + c) + value, sums + c);
    });
  }
}

template <typename T>
void attention_tile(const AttentionShape<T>& shape, const AttentionTile& tile, float* memory, T* output,
                    float* log_sum_exp) {
  const TileSizes sizes(tile.length, shape.head_size);
  Scratch scratch(memory);
  PackedTile packed(scratch, sizes);
  TileMask mask(scratch, sizes);
  float* scores = scratch.take(sizes.queries * sizes.keys);
  float* result = scratch.take(sizes.queries * sizes.width);
  packed.fill(shape, tile, sizes);

  for (int64_t first = 0; first < sizes.length; first += kQueryBlock) {
    const int64_t queries = std::min(kQueryBlock, sizes.length - first);
    small_product({packed.q + first * sizes.width, sizes.width, 1}, packed.transposed_k, sizes.keys, queries,
                  sizes.keys, sizes.size, scores, sizes.keys);
    if (shape.draw.threshold != 0) {
      mask.draw(shape.draw, tile.head, shape.token_keys + tile.start + first, queries);
    }
    for (int64_t query = 0; query < queries; ++query) {
      float* row = scores + query * sizes.keys;
      float largest = 0.0f;
      const float total = exponentials(row, sizes.length, largest);
      log_sum_exp[tile.start + first + query] = largest + std::log(total);
      const Vec factor(shape.draw.scale / total);
      if (shape.draw.threshold != 0) {
        const uint8_t* bits = mask.bits(query);
        for (int64_t j = 0; j < sizes.keys; j += kWidth)
          masked(bits, j, Vec::loadu(row + j) * factor).store(row + j);
      } else {
        for (int64_t j = 0; j < sizes.keys; j += kWidth) (Vec::loadu(row + j) * factor).store(row + j);
      }
    }
    small_product({scores, sizes.keys, 1}, packed.v, sizes.width, queries, sizes.width, sizes.length, result,
                  sizes.width);
    T* out = output + (tile.start + first) * shape.hidden + tile.head * sizes.size;
    for (int64_t query = 0; query < queries; ++query) {
      for_vectors(sizes.size, [&](int64_t c, auto part) {
        part.store(part.load(result + query * sizes.width + c), out + query * shape.hidden + c);
      });
    }
  }
}

template <typename T>
void attention_backward_tile(const AttentionShape<T>& shape, const AttentionTile& tile, const T* grad,
                             const T* output, const float* log_sum_exp, float* memory, T* qkv_grad,
                             float* bias_sums) {
  const TileSizes sizes(tile.length, shape.head_size);
  const int64_t rows = sizes.keys * sizes.width;
  Scratch scratch(memory);
  PackedTile packed(scratch, sizes);
  TileMask mask(scratch, sizes);
  float* transposed_v = scratch.take(rows);
  float* output_grad = scratch.take(rows);
  float* q_grad = scratch.take(rows);
  float* k_grad = scratch.take(rows);
  float* v_grad = scratch.take(rows);
  float* probabilities = scratch.take(sizes.queries * sizes.keys);
  float* score_grads = scratch.take(sizes.queries * sizes.keys);

  const int64_t column = tile.head * sizes.size;
  const int64_t out_start = tile.start * shape.hidden + column;
  const int64_t stride = 3 * shape.hidden;
  T* to = qkv_grad + tile.start * stride + column;
  for (int64_t part = 0; part < 3; ++part) prefetch_for_writing(to + part * shape.hidden, stride, sizes);
  packed.fill(shape, tile, sizes);
  transpose(packed.v, sizes, transposed_v);
  pack(grad + out_start, shape.hidden, nullptr, 1.0f, sizes, output_grad);

  for (int64_t first = 0; first < sizes.length; first += kQueryBlock) {
    const int64_t queries = std::min(kQueryBlock, sizes.length - first);
    const float* block_q = packed.q + first * sizes.width;
    const float* block_grad = output_grad + first * sizes.width;
    small_product({block_q, sizes.width, 1}, packed.transposed_k, sizes.keys, queries, sizes.keys, sizes.size,
                  probabilities, sizes.keys);
    small_product({block_grad, sizes.width, 1}, transposed_v, sizes.keys, queries, sizes.keys, sizes.size,
                  score_grads, sizes.keys);
    const bool drops = shape.draw.threshold != 0;
    if (drops) mask.draw(shape.draw, tile.head, shape.token_keys + tile.start + first, queries);
    for (int64_t query = 0; query < queries; ++query) {
      // The softmax's inner product equals the output's with its gradient.
      const T* out = output + out_start + (first + query) * shape.hidden;
      __builtin_prefetch(out + sizes.size, 0, 2);
      __builtin_prefetch(out + 2 * sizes.size - 1, 0, 2);
      Vec product(0.0f);
      for_vectors(sizes.size, [&](int64_t c, auto part) {
        product =
            at::vec::fmadd(part.load(out + c), part.load(block_grad + query * sizes.width + c), product);
      });
      const Vec inner(sum(product));
      const Vec shift(log_sum_exp[tile.start + first + query]);
      const Vec scale(shape.draw.scale);
      float* p_row = probabilities + query * sizes.keys;
      float* s_row = score_grads + query * sizes.keys;
      for (int64_t j = 0; j < sizes.keys; j += kWidth) {
        const Vec p = exp(Vec::loadu(p_row + j) - shift);
        Vec kept = p;
        Vec p_grad = Vec::loadu(s_row + j);
        if (drops) {
          kept = masked(mask.bits(query), j, p * scale);
          p_grad = masked(mask.bits(query), j, p_grad * scale);
        }
        kept.store(p_row + j);
        (p * (p_grad - inner)).store(s_row + j);
      }
    }
    const bool accumulate = first > 0;
    small_product({score_grads, sizes.keys, 1}, packed.k, sizes.width, queries, sizes.width, sizes.length,
                  q_grad + first * sizes.width, sizes.width);
    small_product({score_grads, 1, sizes.keys}, block_q, sizes.width, sizes.length, sizes.width, queries,
                  k_grad, sizes.width, accumulate);
    small_product({probabilities, 1, sizes.keys}, block_grad, sizes.width, sizes.length, sizes.width, queries,
                  v_grad, sizes.width, accumulate);
  }

  unpack(q_grad, sizes.length, sizes, shape.scale, to, stride, bias_sums + column);
  unpack(k_grad, sizes.length, sizes, 1.0f, to + shape.hidden, stride, bias_sums + shape.hidden + column);
  unpack(v_grad, sizes.length, sizes, 1.0f, to + 2 * shape.hidden, stride,
         bias_sums + 2 * shape.hidden + column);
}

}  // namespace

int64_t attention_scratch(int64_t max_length, int64_t head_size, bool backward) {
  const TileSizes sizes(std::max<int64_t>(max_length, 1), head_size);
  const int64_t rows = sizes.keys * sizes.width;
  const int64_t block = sizes.queries * sizes.keys;
  const int64_t mask = 3 * round_up(sizes.queries * sizes.calls, kCallsAtOnce);
  const int64_t pieces = 16 * Scratch::kAlignment;  // rounding up of each
  return (backward ? 9 * rows + 2 * block : 5 * rows + block) + mask + pieces;
}

template <typename T>
void put_attention_kernels(ActivationKernels<T>& kernels) {
  kernels.attention = attention_tile<T>;
  kernels.attention_backward = attention_backward_tile<T>;
}
FINETUNE_FOR_ACTIVATION_TYPES(put_attention_kernels)

}  // namespace CPU_CAPABILITY
}  // namespace finetune::kernels::cpu
