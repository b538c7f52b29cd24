#pragma once

#include "../isa_kernels.h"
#include "finetune/kernels/philox.h"
#include "simd.h"

/// Dropout masks as bits, one byte a call of the generator: bit i is feature 8 * block + i.
namespace finetune::kernels::cpu {
inline namespace CPU_CAPABILITY {

/// Buffers of counters and bytes hold a multiple of this.
constexpr int64_t kCallsAtOnce = 16;

constexpr int64_t round_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

#if defined(CPU_CAPABILITY_AVX512)

struct Lanes {
  static constexpr int64_t kCount = 16;
  __m512i v;
  static Lanes load(const uint32_t* p) { return {_mm512_loadu_si512(p)}; }
  static Lanes all(uint32_t x) { return {_mm512_set1_epi32(static_cast<int>(x))}; }
  friend Lanes operator^(Lanes a, Lanes b) { return {_mm512_xor_si512(a.v, b.v)}; }
};

inline void multiply(Lanes a, uint32_t multiplier, Lanes& high, Lanes& low) {
  const __m512i m = _mm512_set1_epi32(static_cast<int>(multiplier));
  const __m512i even = _mm512_mul_epu32(a.v, m);
  const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(a.v, 32), m);
  low.v = _mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32));
  high.v = _mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd);
}

inline void store_bits(const Lanes (&words)[4], uint32_t threshold, uint8_t* bits) {
  const __m512i limit = _mm512_set1_epi16(static_cast<int16_t>(threshold));
  __m512i all = _mm512_setzero_si512();
  for (int w = 0; w < 4; ++w) {
    const __m512i bit = _mm512_set1_epi32(1 << (2 * w) | 1 << (2 * w + 17));
    const __mmask32 keep = _mm512_cmpge_epu16_mask(words[w].v, limit);
    all = _mm512_or_si512(all, _mm512_maskz_mov_epi16(keep, bit));
  }
  all = _mm512_or_si512(all, _mm512_srli_epi32(all, 16));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(bits), _mm512_cvtepi32_epi8(all));
}

#elif defined(CPU_CAPABILITY_AVX2)

struct Lanes {
  static constexpr int64_t kCount = 8;
  __m256i v;
  static Lanes load(const uint32_t* p) { return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))}; }
  static Lanes all(uint32_t x) { return {_mm256_set1_epi32(static_cast<int>(x))}; }
  friend Lanes operator^(Lanes a, Lanes b) { return {_mm256_xor_si256(a.v, b.v)}; }
};

inline void multiply(Lanes a, uint32_t multiplier, Lanes& high, Lanes& low) {
  const __m256i m = _mm256_set1_epi32(static_cast<int>(multiplier));
  const __m256i even = _mm256_mul_epu32(a.v, m);
  const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(a.v, 32), m);
  low.v = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
  high.v = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
}

inline void store_bits(const Lanes (&words)[4], uint32_t threshold, uint8_t* bits) {
  const __m256i limit = _mm256_set1_epi16(static_cast<int16_t>(threshold));
  __m256i all = _mm256_setzero_si256();
  for (int w = 0; w < 4; ++w) {
    const __m256i bit = _mm256_set1_epi32(1 << (2 * w) | 1 << (2 * w + 17));
    const __m256i keep = _mm256_cmpeq_epi16(_mm256_max_epu16(words[w].v, limit), words[w].v);
    all = _mm256_or_si256(all, _mm256_and_si256(keep, bit));
  }
  all = _mm256_or_si256(all, _mm256_srli_epi32(all, 16));
  const __m256i gather_low_bytes =
      _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 4, 8, 12, -1, -1, -1,
                       -1, -1, -1, -1, -1, -1, -1, -1, -1);
  const __m256i bytes = _mm256_shuffle_epi8(all, gather_low_bytes);
  const __m128i joined =
      _mm_unpacklo_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(bits), joined);
}

#else

struct Lanes {
  static constexpr int64_t kCount = 1;
  uint32_t v;
  static Lanes load(const uint32_t* p) { return {*p}; }
  static Lanes all(uint32_t x) { return {x}; }
  friend Lanes operator^(Lanes a, Lanes b) { return {a.v ^ b.v}; }
};

inline void multiply(Lanes a, uint32_t multiplier, Lanes& high, Lanes& low) {
  const uint64_t product = static_cast<uint64_t>(a.v) * multiplier;
  high.v = static_cast<uint32_t>(product >> 32);
  low.v = static_cast<uint32_t>(product);
}

inline void store_bits(const Lanes (&words)[4], uint32_t threshold, uint8_t* bits) {
  const PhiloxWords output{{words[0].v, words[1].v, words[2].v, words[3].v}};
  uint32_t byte = 0;
  for (uint32_t feature = 0; feature < kDropoutFeaturesPerCall; ++feature) {
    byte |= static_cast<uint32_t>(dropout_draw(output, feature) >= threshold) << feature;
  }
  *bits = static_cast<uint8_t>(byte);
}

#endif

/// bits[i] of the calls with counters (word0[i], word1[i], site and head, step). The buffers are read and
/// written up to the next multiple of `kCallsAtOnce`.
inline void keep_bits(const DropoutDraw& draw, uint32_t head, const uint32_t* word0, const uint32_t* word1,
                      int64_t count, uint8_t* bits) {
  const PhiloxWords fixed = dropout_counter(draw.step, draw.site, head, 0, 0);
  for (int64_t i = 0; i < count; i += Lanes::kCount) {
    Lanes words[4] = {Lanes::load(word0 + i), Lanes::load(word1 + i), Lanes::all(fixed.word[2]),
                      Lanes::all(fixed.word[3])};
    uint32_t key0 = static_cast<uint32_t>(draw.seed);
    uint32_t key1 = static_cast<uint32_t>(draw.seed >> 32);
    for (int round = 0; round < kPhiloxRounds; ++round) {
      Lanes high0, low0, high1, low1;
      multiply(words[0], kPhiloxMultiplier0, high0, low0);
      multiply(words[2], kPhiloxMultiplier1, high1, low1);
      words[0] = high1 ^ words[1] ^ Lanes::all(key0);
      words[1] = low1;
      words[2] = high0 ^ words[3] ^ Lanes::all(key1);
      words[3] = low0;
      key0 += kPhiloxKeyStep0;
      key1 += kPhiloxKeyStep1;
    }
    store_bits(words, draw.threshold, bits + i);
  }
}

/// Features of one token that one `RowMask` covers.
constexpr int64_t kMaskFeatures = 1024;

/// The mask of up to `kMaskFeatures` features of one token.
class RowMask {
 public:
  /// For features first_feature (a multiple of kMaskFeatures) to first_feature + count.
  void draw(const DropoutDraw& draw, int64_t token_key, int64_t first_feature, int64_t count) {
    alignas(64) uint32_t word0[kBytes];
    alignas(64) uint32_t word1[kBytes];
    const int64_t calls = round_up(round_up(count, 8) / 8, kCallsAtOnce);
    const PhiloxWords first = dropout_counter(draw.step, draw.site, 0, token_key,
                                              static_cast<uint32_t>(first_feature / kDropoutFeaturesPerCall));
    for (int64_t i = 0; i < calls; ++i) {
      word0[i] = first.word[0] + static_cast<uint32_t>(i);
      word1[i] = first.word[1];
    }
    keep_bits(draw, 0, word0, word1, calls, bits_);
  }
  const uint8_t* bits() const { return bits_; }

 private:
  static constexpr int64_t kBytes = kMaskFeatures / 8;
  alignas(64) uint8_t bits_[kBytes];
};

/// `kept` where the bit of feature `feature` (a multiple of kWidth) + lane is set, else 0.
inline Vec masked(const uint8_t* bits, int64_t feature, const Vec& kept) {
#if defined(CPU_CAPABILITY_AVX512)
  uint16_t mask;
  __builtin_memcpy(&mask, bits + feature / 8, sizeof(mask));
  return _mm512_maskz_mov_ps(mask, kept);
#elif defined(CPU_CAPABILITY_AVX2)
  const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  const __m256i byte = _mm256_set1_epi32(bits[feature / 8]);
  const __m256i mask = _mm256_cmpeq_epi32(_mm256_and_si256(byte, bit), bit);
  return _mm256_and_ps(kept, _mm256_castsi256_ps(mask));
#else
  float values[kWidth];
  kept.store(values);
  for (int64_t i = 0; i < kWidth; ++i) {
    if (!(bits[(feature + i) / 8] >> ((feature + i) % 8) & 1)) values[i] = 0.0f;
  }
  return Vec::loadu(values);
#endif
}

}  // namespace CPU_CAPABILITY
}  // namespace finetune::kernels::cpu
