#include "numbers.h"

#include <cmath>
#include <cstdio>

namespace finetune::doctor {
namespace {

std::string formatted(const char* format, double value) {
  char text[48];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

/// Two significant digits, more before the point.
std::string short_number(double value) { return formatted(std::fabs(value) < 9.95 ? "%.1f" : "%.0f", value); }

}  // namespace

std::string seconds_text(double seconds) {
  if (seconds >= 1) return short_number(seconds) + " s";
  if (seconds >= 1e-3) return short_number(seconds * 1e3) + " ms";
  return short_number(seconds * 1e6) + " us";
}

std::string ratio_text(double ratio) { return formatted(ratio < 9.995 ? "%.2f" : "%.0f", ratio); }

std::string percent_text(double share) {
  return formatted(share < 0.0095 && share > 0 ? "%.1f" : "%.0f", share * 100) + " %";
}

std::string rate_text(double tflops) {
  return tflops >= 1 ? short_number(tflops) + " TFLOP/s" : short_number(tflops * 1e3) + " GFLOP/s";
}

}  // namespace finetune::doctor
