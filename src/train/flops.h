#pragma once

#include <cstdint>

#include "finetune/model/encoder_config.h"

namespace finetune {

/// Floating-point operations that the products of a training step need, forward and backward: six for each
/// weight of the layers' matrices and token (Kaplan et al. 2020), and attention's, which grow with
/// `squared_lengths`, the sum of the squares of the rows' lengths. The last layer computes `num_tokens_read`
/// tokens once they have attended (see `Encoder::forward`). What is computed anew is not counted.
double training_flops(const EncoderConfig& encoder, int64_t num_tokens, int64_t num_tokens_read,
                      double squared_lengths);

}  // namespace finetune
