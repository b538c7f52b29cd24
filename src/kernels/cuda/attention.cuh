#pragma once

#include <cmath>

#include "block.cuh"
#include "dropout.cuh"

/// Self-attention within packed rows, by tiles of 32 queries and 32 keys whose scores never leave shared
/// memory (Dao et al. 2022, "FlashAttention"). Dropout's draws are counted, as everywhere, and the backward
/// pass adds nothing atomically: a run repeats to the bit, which the libraries' fused kernels do not promise.
namespace finetune::kernels::cuda {

constexpr int kTile = 32;
constexpr int kAttentionThreads = 128;
constexpr int kAttentionWarps = kAttentionThreads / kWarpSize;
/// Threads that share one query, each with 8 keys of a tile: as many as a call of the generator serves.
constexpr int kThreadsPerQuery = kAttentionThreads / kTile;
static_assert(kTile == kThreadsPerQuery * kPackSize);

inline int64_t tiles_of(int64_t length) { return blocks_for(length, kTile); }

template <typename Block>
FINETUNE_DEVICE float query_max(const Block& block, float value) {
  for (int mask = 1; mask < kThreadsPerQuery; mask *= 2) value = fmaxf(value, block.shuffle_xor(value, mask));
  return value;
}

template <typename Block>
FINETUNE_DEVICE float query_sum(const Block& block, float value) {
  for (int mask = 1; mask < kThreadsPerQuery; mask *= 2) value += block.shuffle_xor(value, mask);
  return value;
}

/// The matrices of one block in shared memory, one kind after the other: operands [32, width] of T, scores
/// [32, 32] in float32, probabilities [32, 32] of T, sums [32, width] in float32.
template <typename T>
struct AttentionLayout {
  int operands;
  int scores;
  int probabilities;
  int sums;
  int width;  ///< head size, rounded up to whole matrices of the tensor cores

  // Rows are longer than needed, so that their beginnings spread over the banks of shared memory.
  static constexpr int kGap = 8;
  static constexpr int kScoreStride = kTile + kGap;

  FINETUNE_HOST_DEVICE static int padded(int64_t head_size) {
    return static_cast<int>((head_size + kMatrixSide - 1) / kMatrixSide * kMatrixSide);
  }
  FINETUNE_HOST_DEVICE int64_t bytes() const { return sum_start(sums); }

  template <typename Block>
  FINETUNE_DEVICE MatrixView<T> operand(const Block& block, int index) const {
    return matrix<T>(block, operand_start(index), width + kGap);
  }
  template <typename Block>
  FINETUNE_DEVICE MatrixView<float> score(const Block& block, int index) const {
    return matrix<float>(block, score_start(index), kScoreStride);
  }
  template <typename Block>
  FINETUNE_DEVICE MatrixView<T> probability(const Block& block, int index) const {
    return matrix<T>(block, probability_start(index), kScoreStride);
  }
  template <typename Block>
  FINETUNE_DEVICE MatrixView<float> sum(const Block& block, int index) const {
    return matrix<float>(block, sum_start(index), width + kGap);
  }

 private:
  FINETUNE_HOST_DEVICE int64_t operand_start(int index) const {
    return static_cast<int64_t>(index) * kTile * (width + kGap) * static_cast<int64_t>(sizeof(T));
  }
  FINETUNE_HOST_DEVICE int64_t score_start(int index) const {
    return operand_start(operands) +
           static_cast<int64_t>(index) * kTile * kScoreStride * static_cast<int64_t>(sizeof(float));
  }
  FINETUNE_HOST_DEVICE int64_t probability_start(int index) const {
    return score_start(scores) +
           static_cast<int64_t>(index) * kTile * kScoreStride * static_cast<int64_t>(sizeof(T));
  }
  FINETUNE_HOST_DEVICE int64_t sum_start(int index) const {
    return probability_start(probabilities) +
           static_cast<int64_t>(index) * kTile * (width + kGap) * static_cast<int64_t>(sizeof(float));
  }
  template <typename Element, typename Block>
  FINETUNE_DEVICE MatrixView<Element> matrix(const Block& block, int64_t start, int stride) const {
    return {block.template shared<Element>(start, static_cast<int64_t>(kTile) * stride), stride};
  }
};

/// Where a block works: one row of the batch and one head.
struct AttentionPlace {
  int64_t start;   ///< first token of the row
  int64_t length;  ///< of the row
  int64_t head;
};

/// A piece of up to 32 rows of a matrix in global memory, `col` its first column.
struct TilePlace {
  int64_t stride;
  int64_t first_row;
  int64_t num_rows;
  int64_t col;
};

template <typename T>
struct AttentionProblem {
  Span<const T> qkv;           ///< [N, 3 * hidden]
  Span<const float> qkv_bias;  ///< [3 * hidden]
  Span<const int32_t> cu_seqlens;
  DropoutSite dropout;
  int64_t num_tokens;
  int64_t max_length;
  int64_t num_heads;
  int64_t head_size;
  float scale;

  FINETUNE_HOST_DEVICE int64_t hidden() const { return num_heads * head_size; }

  template <typename Block>
  FINETUNE_DEVICE AttentionPlace place(const Block& block) const {
    const int64_t start = cu_seqlens[block.z()];
    return {start, cu_seqlens[block.z() + 1] - start, block.y()};
  }

  /// The tile of queries, keys or values (`part` 0, 1, 2) from position `first` of the row on.
  FINETUNE_DEVICE TilePlace tile(const AttentionPlace& place, int64_t first, int part) const {
    return {3 * hidden(), place.start + first, tile_rows(place, first),
            part * hidden() + place.head * head_size};
  }
  /// The same piece of a matrix [N, hidden].
  FINETUNE_DEVICE TilePlace output_tile(const AttentionPlace& place, int64_t first) const {
    return {hidden(), place.start + first, tile_rows(place, first), place.head * head_size};
  }

  /// Loads a tile, bias added where there is one; what lies beyond it is 0.
  template <typename Block>
  FINETUNE_DEVICE void load(const Block& block, Span<const T> from, Span<const float> bias,
                            const TilePlace& tile, int width, const MatrixView<T>& to) const {
    const int packs = width / kPackSize;
    for (int i = block.thread(); i < kTile * packs; i += kAttentionThreads) {
      const int row = i / packs;
      const int col = i % packs * kPackSize;
      const int count = row < tile.num_rows ? pack_count(col, head_size) : 0;
      Pack values = load_pack(from, (tile.first_row + row) * tile.stride + tile.col + col, count);
      if (bias.given()) {
        const Pack shift = load_pack(bias, tile.col + col, count);
        for (int k = 0; k < kPackSize; ++k) values.value[k] += shift.value[k];
      }
      store_pack(values, to.data, static_cast<int64_t>(row) * to.stride + col, kPackSize);
    }
  }

  /// Stores a tile of sums.
  template <typename Block>
  FINETUNE_DEVICE void store(const Block& block, const MatrixView<float>& from, Span<T> to,
                             const TilePlace& tile) const {
    const int packs = static_cast<int>((head_size + kPackSize - 1) / kPackSize);
    for (int i = block.thread(); i < tile.num_rows * packs; i += kAttentionThreads) {
      const int row = i / packs;
      const int col = i % packs * kPackSize;
      const Pack values = load_pack(from.data, static_cast<int64_t>(row) * from.stride + col, kPackSize);
      store_pack(values, to, (tile.first_row + row) * tile.stride + tile.col + col,
                 pack_count(col, head_size));
    }
  }

 private:
  FINETUNE_DEVICE static int64_t tile_rows(const AttentionPlace& place, int64_t first) {
    return place.length - first < kTile ? place.length - first : kTile;
  }
};

/// result [32, 32] = left [32, width] right [32, width] transposed, a quarter by each warp.
template <typename T, typename Block>
FINETUNE_DEVICE void score_product(const Block& block, const MatrixView<T>& left, const MatrixView<T>& right,
                                   const MatrixView<float>& result, int width) {
  const int warp = block.thread() / kWarpSize;
  const int row = warp / 2 * kMatrixSide;
  const int col = warp % 2 * kMatrixSide;
  block.template warp_product<Left::kByRows, Right::kByColumns>(left.from(row, 0), right.from(col, 0),
                                                                result.from(row, col), width, false);
}

/// result [32, width] = left [32, 32] (transposed if it lies by columns) right [32, width], added to it if
/// `accumulate`.
template <Left kLeft, typename T, typename Block>
FINETUNE_DEVICE void value_product(const Block& block, const MatrixView<T>& left, const MatrixView<T>& right,
                                   const MatrixView<float>& result, int width, bool accumulate) {
  const int tiles = kTile / kMatrixSide * (width / kMatrixSide);
  for (int tile = block.thread() / kWarpSize; tile < tiles; tile += kAttentionWarps) {
    const int row = tile % 2 * kMatrixSide;
    const int col = tile / 2 * kMatrixSide;
    const MatrixView<T> part = kLeft == Left::kByRows ? left.from(row, 0) : left.from(0, row);
    block.template warp_product<kLeft, Right::kByRows>(part, right.from(0, col), result.from(row, col), kTile,
                                                       accumulate);
  }
}

/// output = dropout(softmax(q k^T * scale)) v, and the scores' log-sum-exp; a block takes one tile of
/// queries.
template <typename T>
struct AttentionForward {
  AttentionProblem<T> problem;
  Span<T> output;           ///< [N, hidden]
  Span<float> log_sum_exp;  ///< [heads, N]

  static constexpr int kThreads = kAttentionThreads;
  Grid grid() const {
    return {.x = tiles_of(problem.max_length), .y = problem.num_heads, .z = problem.cu_seqlens.size - 1};
  }
  int64_t shared_bytes() const { return layout().bytes(); }

  template <typename Block>
  FINETUNE_DEVICE void operator()(Block& block) const {
    const AttentionPlace place = problem.place(block);
    const int64_t first_query = block.x() * kTile;
    if (first_query >= place.length) return;
    const AttentionLayout<T> memory = layout();
    const MatrixView<T> q = memory.operand(block, 0);
    const MatrixView<T> k = memory.operand(block, 1);
    const MatrixView<T> v = memory.operand(block, 2);
    const MatrixView<float> scores = memory.score(block, 0);
    const MatrixView<T> probabilities = memory.probability(block, 0);
    const MatrixView<float> result = memory.sum(block, 0);
    problem.load(block, problem.qkv, problem.qkv_bias, problem.tile(place, first_query, 0), memory.width, q);

    SoftmaxState state;
    for (int64_t first_key = 0; first_key < place.length; first_key += kTile) {
      block.sync();
      problem.load(block, problem.qkv, problem.qkv_bias, problem.tile(place, first_key, 1), memory.width, k);
      problem.load(block, problem.qkv, problem.qkv_bias, problem.tile(place, first_key, 2), memory.width, v);
      block.sync();
      score_product(block, q, k, scores, memory.width);
      block.sync();
      const float shrink = soften(block, place, first_query, first_key, scores, probabilities, state);
      if (first_key > 0) rescale(block, result, memory.width, shrink);
      block.sync();
      value_product<Left::kByRows>(block, probabilities, v, result, memory.width, first_key > 0);
    }
    block.sync();
    rescale(block, result, memory.width, problem.dropout.scale / state.sum);
    const int64_t query = first_query + block.thread() / kThreadsPerQuery;
    if (block.thread() % kThreadsPerQuery == 0 && query < place.length) {
      log_sum_exp[place.head * problem.num_tokens + place.start + query] = state.highest + logf(state.sum);
    }
    block.sync();
    problem.store(block, result, output, problem.output_tile(place, first_query));
  }

 private:
  /// Of one query's scores so far; the same in all threads that share the query.
  struct SoftmaxState {
    float highest = -INFINITY;
    float sum = 0.0f;  ///< of the exponentials of the scores less the highest
  };

  FINETUNE_HOST_DEVICE AttentionLayout<T> layout() const {
    return {.operands = 3,
            .scores = 1,
            .probabilities = 1,
            .sums = 1,
            .width = AttentionLayout<T>::padded(problem.head_size)};
  }

  /// Unnormalised probabilities of a tile. Returns what the sums so far must be multiplied by, now that the
  /// highest score may be another.
  template <typename Block>
  FINETUNE_DEVICE float soften(const Block& block, const AttentionPlace& place, int64_t first_query,
                               int64_t first_key, const MatrixView<float>& scores,
                               const MatrixView<T>& probabilities, SoftmaxState& state) const {
    const int row = block.thread() / kThreadsPerQuery;
    const int col = block.thread() % kThreadsPerQuery * kPackSize;
    const int count = pack_count(first_key + col, place.length);
    Pack values;
    float highest = state.highest;
    for (int i = 0; i < kPackSize; ++i) {
      values.value[i] = i < count ? scores.at(row, col + i) * problem.scale : -INFINITY;
      highest = fmaxf(highest, values.value[i]);
    }
    highest = query_max(block, highest);
    float sum = 0.0f;
    for (int i = 0; i < kPackSize; ++i) {
      values.value[i] = i < count ? expf(values.value[i] - highest) : 0.0f;
      sum += values.value[i];
    }
    const float shrink = expf(state.highest - highest);
    state.sum = state.sum * shrink + query_sum(block, sum);
    state.highest = highest;
    const bool real = first_query + row < place.length;
    const uint32_t bits = real ? problem.dropout.keep_bits(place.start + first_query + row, place.head,
                                                           (first_key + col) / kPackSize)
                               : 0u;
    values = masked(values, bits, 1.0f);
    for (int i = 0; i < kPackSize; ++i) probabilities.at(row, col + i) = from_float<T>(values.value[i]);
    return shrink;
  }

  /// Multiplies the row of this thread's query by `factor`.
  template <typename Block>
  FINETUNE_DEVICE void rescale(const Block& block, const MatrixView<float>& result, int width,
                               float factor) const {
    const int row = block.thread() / kThreadsPerQuery;
    for (int col = block.thread() % kThreadsPerQuery; col < width; col += kThreadsPerQuery) {
      result.at(row, col) *= factor;
    }
  }
};

/// The gradient of qkv. Half of the blocks take a tile of keys each and go over all queries, which gives the
/// gradients of keys and values; the others take a tile of queries and go over all keys.
template <typename T>
struct AttentionBackward {
  AttentionProblem<T> problem;
  Span<const T> grad;    ///< [N, hidden]
  Span<const T> output;  ///< [N, hidden]
  Span<const float> log_sum_exp;
  Span<T> qkv_grad;  ///< [N, 3 * hidden]

  static constexpr int kThreads = kAttentionThreads;
  Grid grid() const {
    return {.x = 2 * tiles_of(problem.max_length), .y = problem.num_heads, .z = problem.cu_seqlens.size - 1};
  }
  int64_t shared_bytes() const { return layout().bytes(); }

  template <typename Block>
  FINETUNE_DEVICE void operator()(Block& block) const {
    const AttentionPlace place = problem.place(block);
    const int64_t first = block.x() / 2 * kTile;
    if (first >= place.length) return;
    const AttentionLayout<T> memory = layout();
    const Matrices tiles{memory.operand(block, 0),     memory.operand(block, 1),     memory.operand(block, 2),
                         memory.operand(block, 3),     memory.score(block, 0),       memory.score(block, 1),
                         memory.probability(block, 0), memory.probability(block, 1), memory.width};
    const MatrixView<float> sum0 = memory.sum(block, 0);
    if (block.x() % 2 == 0) {
      differentiate_keys(block, place, first, tiles, sum0, memory.sum(block, 1));
    } else {
      differentiate_queries(block, place, first, tiles, sum0);
    }
  }

 private:
  struct Matrices {
    MatrixView<T> q, k, v, grad;
    MatrixView<float> scores, probability_grads;
    MatrixView<T> probabilities, score_grads;
    int width;
  };

  FINETUNE_HOST_DEVICE AttentionLayout<T> layout() const {
    return {.operands = 4,
            .scores = 2,
            .probabilities = 2,
            .sums = 2,
            .width = AttentionLayout<T>::padded(problem.head_size)};
  }

  template <typename Block>
  FINETUNE_DEVICE void load_keys(const Block& block, const AttentionPlace& place, int64_t first,
                                 const Matrices& tiles) const {
    problem.load(block, problem.qkv, problem.qkv_bias, problem.tile(place, first, 1), tiles.width, tiles.k);
    problem.load(block, problem.qkv, problem.qkv_bias, problem.tile(place, first, 2), tiles.width, tiles.v);
  }

  template <typename Block>
  FINETUNE_DEVICE void load_queries(const Block& block, const AttentionPlace& place, int64_t first,
                                    const Matrices& tiles) const {
    problem.load(block, problem.qkv, problem.qkv_bias, problem.tile(place, first, 0), tiles.width, tiles.q);
    problem.load(block, grad, {}, problem.output_tile(place, first), tiles.width, tiles.grad);
  }

  template <typename Block>
  FINETUNE_DEVICE void differentiate_keys(const Block& block, const AttentionPlace& place, int64_t first_key,
                                          const Matrices& tiles, const MatrixView<float>& k_grad,
                                          const MatrixView<float>& v_grad) const {
    load_keys(block, place, first_key, tiles);
    for (int64_t first_query = 0; first_query < place.length; first_query += kTile) {
      block.sync();
      load_queries(block, place, first_query, tiles);
      block.sync();
      differentiate_scores(block, place, first_query, first_key, tiles);
      const bool accumulate = first_query > 0;
      value_product<Left::kByColumns>(block, tiles.probabilities, tiles.grad, v_grad, tiles.width,
                                      accumulate);
      value_product<Left::kByColumns>(block, tiles.score_grads, tiles.q, k_grad, tiles.width, accumulate);
    }
    block.sync();
    problem.store(block, k_grad, qkv_grad, problem.tile(place, first_key, 1));
    problem.store(block, v_grad, qkv_grad, problem.tile(place, first_key, 2));
  }

  template <typename Block>
  FINETUNE_DEVICE void differentiate_queries(const Block& block, const AttentionPlace& place,
                                             int64_t first_query, const Matrices& tiles,
                                             const MatrixView<float>& q_grad) const {
    load_queries(block, place, first_query, tiles);
    for (int64_t first_key = 0; first_key < place.length; first_key += kTile) {
      block.sync();
      load_keys(block, place, first_key, tiles);
      block.sync();
      differentiate_scores(block, place, first_query, first_key, tiles);
      value_product<Left::kByRows>(block, tiles.score_grads, tiles.k, q_grad, tiles.width, first_key > 0);
    }
    block.sync();
    problem.store(block, q_grad, qkv_grad, problem.tile(place, first_query, 0));
  }

  /// The probabilities of a pair of tiles as the forward pass used them, and the gradients of their scores.
  template <typename Block>
  FINETUNE_DEVICE void differentiate_scores(const Block& block, const AttentionPlace& place,
                                            int64_t first_query, int64_t first_key,
                                            const Matrices& tiles) const {
    score_product(block, tiles.q, tiles.k, tiles.scores, tiles.width);
    score_product(block, tiles.grad, tiles.v, tiles.probability_grads, tiles.width);
    const int row = block.thread() / kThreadsPerQuery;
    const int col = block.thread() % kThreadsPerQuery * kPackSize;
    const bool real = first_query + row < place.length;
    const int64_t token = place.start + first_query + row;
    const float inner = inner_product(block, place, token, real);
    block.sync();
    const int count = real ? pack_count(first_key + col, place.length) : 0;
    const uint32_t bits =
        real ? problem.dropout.keep_bits(token, place.head, (first_key + col) / kPackSize) : 0u;
    const float shift = real ? log_sum_exp[place.head * problem.num_tokens + token] : 0.0f;
    for (int i = 0; i < kPackSize; ++i) {
      float kept = 0.0f;
      float score_grad = 0.0f;
      if (i < count) {
        const float p = expf(tiles.scores.at(row, col + i) * problem.scale - shift);
        const float factor = (bits >> i & 1u) != 0 ? problem.dropout.scale : 0.0f;
        kept = p * factor;
        score_grad = p * (tiles.probability_grads.at(row, col + i) * factor - inner) * problem.scale;
      }
      tiles.probabilities.at(row, col + i) = from_float<T>(kept);
      tiles.score_grads.at(row, col + i) = from_float<T>(score_grad);
    }
    block.sync();
  }

  /// The output of a query times its gradient, which equals the softmax's own inner product.
  template <typename Block>
  FINETUNE_DEVICE float inner_product(const Block& block, const AttentionPlace& place, int64_t token,
                                      bool real) const {
    const int64_t start = token * problem.hidden() + place.head * problem.head_size;
    float product = 0.0f;
    for (int64_t col = block.thread() % kThreadsPerQuery * kPackSize; col < problem.head_size; col += kTile) {
      const int count = real ? pack_count(col, problem.head_size) : 0;
      const Pack out = load_pack(output, start + col, count);
      const Pack out_grad = load_pack(grad, start + col, count);
      for (int i = 0; i < kPackSize; ++i) product += out.value[i] * out_grad.value[i];
    }
    return query_sum(block, product);
  }
};

}  // namespace finetune::kernels::cuda
