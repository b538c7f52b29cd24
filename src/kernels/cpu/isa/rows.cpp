#include <algorithm>

#include "functions.h"
#include "keep_bits.h"

namespace finetune::kernels::cpu {
inline namespace CPU_CAPABILITY {

void add_to(const float* x, float* sums, int64_t cols) {
  for_vectors(cols,
              [&](int64_t c, auto part) { part.store(part.load(sums + c) + part.load(x + c), sums + c); });
}

void column_sums(const float* x, int64_t rows, int64_t cols, float* sums) {
  for (int64_t row = 0; row < rows; ++row) add_to(x + row * cols, sums, cols);
}

void add_bias_rows(const float* x, const float* bias, float* y, int64_t rows, int64_t cols) {
  for (int64_t row = 0; row < rows; ++row, x += cols, y += cols) {
    for_vectors(cols,
                [&](int64_t c, auto part) { part.store(part.load(x + c) + part.load(bias + c), y + c); });
  }
}

void embedding_row(const float* word, const float* position, const float* type, float* y, int64_t cols) {
  for_vectors(cols, [&](int64_t c, auto part) {
    const Vec both = part.load(word + c) + part.load(position + c);
    part.store(type == nullptr ? both : both + part.load(type + c), y + c);
  });
}

void dropout_rows(const float* x, const int64_t* token_keys, float* y, int64_t rows, int64_t cols,
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

}  // namespace CPU_CAPABILITY
}  // namespace finetune::kernels::cpu
