#include "flops.h"

namespace finetune {

double training_flops(const EncoderConfig& encoder, int64_t num_tokens, int64_t num_tokens_read,
                      double squared_lengths) {
  const auto hidden = static_cast<double>(encoder.hidden_size);
  const auto layers = static_cast<double>(encoder.num_layers);
  const double before_attention = 3 * hidden * hidden;
  const double after_attention =
      hidden * hidden + 2 * hidden * static_cast<double>(encoder.intermediate_size);
  const auto tokens = static_cast<double>(num_tokens);
  const double in_last_layer = static_cast<double>(num_tokens_read);
  const double products =
      layers * before_attention * tokens + after_attention * ((layers - 1) * tokens + in_last_layer);
  // Scores and their weighted sum: two products of 2 * H * length^2 each, and twice that backward.
  return 6 * products + layers * 12 * hidden * squared_lengths;
}

}  // namespace finetune
