#include "score_reading.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace finetune {
namespace {

constexpr int kLargestPower = 308;

/// 10^exponent, correctly rounded; exponent from 0 to 308.
double power_of_ten(int exponent) {
  std::array<char, 8> text{'1', 'e'};
  const auto end = std::to_chars(text.data() + 2, text.data() + text.size(), exponent).ptr;
  double power = 0;
  std::from_chars(text.data(), end, power);
  return power;
}

}  // namespace

double score_as_reference_reads(double score) {
  if (!std::isfinite(score) || score == 0.0) return score;
  std::array<char, 40> text{};
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), std::abs(score), std::chars_format::scientific)
          .ptr;
  uint64_t digits = 0;
  int exponent = 0;
  bool in_fraction = false;
  for (const char* at = text.data(); at != end; ++at) {
    if (*at == 'e') {
      int written = 0;
      std::from_chars(at + (at[1] == '+' ? 2 : 1), end, written);
      exponent += written;
      break;
    }
    if (*at == '.') {
      in_fraction = true;
      continue;
    }
    digits = digits * 10 + static_cast<uint64_t>(*at - '0');
    if (in_fraction) --exponent;
  }
  auto value = static_cast<double>(digits);
  while (exponent < -kLargestPower) {
    value /= power_of_ten(kLargestPower);
    exponent += kLargestPower;
  }
  value = exponent < 0 ? value / power_of_ten(-exponent) : value * power_of_ten(exponent);
  return std::copysign(value, score);
}

}  // namespace finetune
