#pragma once

#include "finetune/kernels/philox.h"
#include "scalar.cuh"

namespace finetune::kernels::cuda {

/// One dropout site of a step. Seed and step are read on the device, so a captured graph draws anew each
/// time.
struct DropoutSite {
  Span<const int64_t> rng;         ///< [2]: seed, step
  Span<const int64_t> token_keys;  ///< [N]
  uint32_t site = 0;
  uint32_t threshold = 0;  ///< 0: everything is kept, and nothing above is given
  float scale = 1.0f;      ///< of what is kept

  FINETUNE_DEVICE bool active() const { return threshold != 0; }

  /// Bit i: whether feature 8 * block + i of `token` is kept.
  FINETUNE_DEVICE uint32_t keep_bits(int64_t token, int64_t head, int64_t block) const {
    if (!active()) return 0xFFu;
    const auto seed = static_cast<uint64_t>(rng[0]);
    const PhiloxWords output = philox4x32_7(dropout_counter(rng[1], site, static_cast<uint32_t>(head),
                                                            token_keys[token], static_cast<uint32_t>(block)),
                                            static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
    uint32_t bits = 0;
    for (uint32_t i = 0; i < kDropoutFeaturesPerCall; ++i) {
      bits |= (dropout_draw(output, i) >= threshold ? 1u : 0u) << i;
    }
    return bits;
  }
};

static_assert(kPackSize == kDropoutFeaturesPerCall);

/// values * scale where the bit is set, else 0.
FINETUNE_DEVICE Pack masked(const Pack& pack, uint32_t bits, float scale) {
  Pack result;
  for (int i = 0; i < kPackSize; ++i) result.value[i] = (bits >> i & 1u) != 0 ? pack.value[i] * scale : 0.0f;
  return result;
}

}  // namespace finetune::kernels::cuda
