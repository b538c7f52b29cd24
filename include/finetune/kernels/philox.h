#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define FINETUNE_HOST_DEVICE __host__ __device__
#else
#define FINETUNE_HOST_DEVICE
#endif

/// The counter-based random numbers of dropout: one definition for every device.
namespace finetune::kernels {

/// Four 32-bit words of a Philox counter or of its output.
struct PhiloxWords {
  uint32_t word[4];
};

constexpr int kPhiloxRounds = 7;
constexpr uint32_t kPhiloxMultiplier0 = 0xD2511F53u;
constexpr uint32_t kPhiloxMultiplier1 = 0xCD9E8D57u;
constexpr uint32_t kPhiloxKeyStep0 = 0x9E3779B9u;
constexpr uint32_t kPhiloxKeyStep1 = 0xBB67AE85u;

/// Philox4x32-7 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"): seven rounds, which pass
/// BigCrush.
FINETUNE_HOST_DEVICE inline PhiloxWords philox4x32_7(PhiloxWords counter, uint32_t key0, uint32_t key1) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t product0 = static_cast<uint64_t>(kPhiloxMultiplier0) * counter.word[0];
    const uint64_t product1 = static_cast<uint64_t>(kPhiloxMultiplier1) * counter.word[2];
    const uint32_t high0 = static_cast<uint32_t>(product0 >> 32);
    const uint32_t high1 = static_cast<uint32_t>(product1 >> 32);
    counter = {{high1 ^ counter.word[1] ^ key0, static_cast<uint32_t>(product1),
                high0 ^ counter.word[3] ^ key1, static_cast<uint32_t>(product0)}};
    key0 += kPhiloxKeyStep0;
    key1 += kPhiloxKeyStep1;
  }
  return counter;
}

/// Features that one call of the generator serves: one for each 16-bit half of its output.
constexpr int kDropoutFeaturesPerCall = 8;

/// The counter of the call that serves features `8 * block` to `8 * block + 7` of one token.
///
/// token_key: row in the update << 32 | position in the row. site: below 2^16; head: 0 except for attention
/// probabilities, whose features are the key positions. Position and block stay below 2^16.
FINETUNE_HOST_DEVICE inline PhiloxWords dropout_counter(int64_t step, uint32_t site, uint32_t head,
                                                        int64_t token_key, uint32_t block) {
  const uint32_t position = static_cast<uint32_t>(token_key);
  const uint32_t row = static_cast<uint32_t>(static_cast<uint64_t>(token_key) >> 32);
  return {{position << 16 | block, row, site | head << 16, static_cast<uint32_t>(step)}};
}

/// The 16-bit draw of feature `feature` out of its call's output: even features the low half of a word, odd
/// ones the high half.
FINETUNE_HOST_DEVICE inline uint32_t dropout_draw(const PhiloxWords& output, uint32_t feature) {
  const uint32_t lane = feature % kDropoutFeaturesPerCall;
  return output.word[lane / 2] >> (16 * (lane % 2)) & 0xFFFFu;
}

/// Draws below it drop their element; `round(probability * 65536)`.
FINETUNE_HOST_DEVICE inline uint32_t dropout_threshold(double probability) {
  return static_cast<uint32_t>(probability * 65536.0 + 0.5);
}

/// What kept elements are multiplied by: one over the fraction that the threshold really keeps.
FINETUNE_HOST_DEVICE inline float dropout_scale(double probability) {
  return static_cast<float>(65536.0 / (65536.0 - dropout_threshold(probability)));
}

}  // namespace finetune::kernels
