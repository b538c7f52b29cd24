#include <algorithm>

#include "functions.h"
#include "keep_bits.h"

namespace finetune::kernels::cpu {
inline namespace CPU_CAPABILITY {
namespace {

template <typename T>
void add_row_to(const T* x, float* sums, int64_t cols) {
  for_vectors(cols,
              [&](int64_t c, auto part) { part.store(part.load(sums + c) + part.load(x + c), sums + c); });
}

template <typename T>
void column_sums(const T* x, int64_t rows, int64_t cols, float* sums) {
  for (int64_t row = 0; row < rows; ++row) add_row_to(x + row * cols, sums, cols);
}

template <typename T>
void add_bias_rows(const T* x, const float* bias, T* y, int64_t rows, int64_t cols) {
  for (int64_t row = 0; row < rows; ++row, x += cols, y += cols) {
    for_vectors(cols,
                [&](int64_t c, auto part) { part.store(part.load(x + c) + part.load(bias + c), y + c); });
  }
}

template <typename T>
void dropout_rows(const T* x, const int64_t* token_keys, T* y, int64_t rows, int64_t cols,
                  const DropoutDraw& draw) {
  RowMask mask;
  const Vec scale(draw.scale);
  for (int64_t row = 0; row < rows; ++row, x += cols, y += cols) {
    for (int64_t first = 0; first < cols; first += kMaskFeatures) {
      const int64_t count = std::min(kMaskFeatures, cols - first);
      mask.draw(draw, token_keys[row], first, count);
      for_vectors(count, [&](int64_t c, auto part) {
        part.store(masked(mask.bits(), c, part.load(x + first + c) * scale), y + first + c);
      });
    }
  }
}

}  // namespace

void add_to(const float* x, float* sums, int64_t cols) { add_row_to(x, sums, cols); }

void embedding_row(const float* word, const float* position, const float* type, float* y, int64_t cols) {
  for_vectors(cols, [&](int64_t c, auto part) {
    const Vec both = part.load(word + c) + part.load(position + c);
    part.store(type == nullptr ? both : both + part.load(type + c), y + c);
  });
}

template <typename T>
void put_row_kernels(ActivationKernels<T>& kernels) {
  kernels.add_bias = add_bias_rows<T>;
  kernels.column_sums = column_sums<T>;
  kernels.dropout = dropout_rows<T>;
}
FINETUNE_FOR_ACTIVATION_TYPES(put_row_kernels)

}  // namespace CPU_CAPABILITY
}  // namespace finetune::kernels::cpu
