#pragma once

#include "finetune/model/head.h"

namespace finetune {

/// The dropout site in front of a head's last layer: far above what any encoder's layers use. A head that
/// drops more takes the next ones.
constexpr int64_t kClassifierSite = 60000;

/// The hidden states a sequence head reads, in float32, and what their dropout depends on.
struct FirstTokens {
  at::Tensor states;      ///< [B, H] float32
  at::Tensor token_keys;  ///< [B] int64; undefined but in training
};
FirstTokens first_tokens(const at::Tensor& hidden_states, const Batch& batch, const ForwardMode& mode);

/// Dropout and a linear layer `classifier` over the batch's `positions`: what most families'
/// `...ForTokenClassification` is.
std::unique_ptr<Head> make_token_head(const EncoderConfig& config, int64_t num_outputs,
                                      ParameterStore& store);

}  // namespace finetune
