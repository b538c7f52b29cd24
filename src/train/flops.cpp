#include "flops.h"

namespace finetune {

double training_flops(const EncoderConfig& encoder, int64_t num_tokens, double squared_lengths) {
  const auto hidden = static_cast<double>(encoder.hidden_size);
  const auto layers = static_cast<double>(encoder.num_layers);
  const double weights = 4 * hidden * hidden + 2 * hidden * static_cast<double>(encoder.intermediate_size);
  // Scores and their weighted sum: two products of 2 * H * length^2 each, and twice that backward.
  return layers * (6 * weights * static_cast<double>(num_tokens) + 12 * hidden * squared_lengths);
}

}  // namespace finetune
