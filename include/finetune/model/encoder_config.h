#pragma once

#include <cstdint>
#include <string>

#include "finetune/config/run_config.h"
#include "finetune/core/json.h"
#include "finetune/kernels/ops.h"

namespace finetune {

/// The architecture, from a Hugging Face `config.json`, with what the run's config sets in force.
struct EncoderConfig {
  std::string model_type;
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t num_layers = 0;
  int64_t num_heads = 0;
  int64_t intermediate_size = 0;
  int64_t max_positions = 0;    ///< tokens a row may have
  int64_t num_token_types = 0;  ///< 0: the family has none
  int64_t pad_token_id = 0;
  kernels::Activation activation = kernels::Activation::kGelu;
  double layer_norm_eps = 1e-12;
  double initializer_range = 0.02;
  double dropout = 0.1;
  double attention_dropout = 0.1;
  double classifier_dropout = 0.1;        ///< in front of the last layer of a sequence head
  double token_classifier_dropout = 0.1;  ///< the same of a token head
  Pooling pooling = Pooling::kPooler;     ///< what a sequence head reads
  bool activation_checkpointing = false;  ///< layers are computed anew in the backward pass
  Json source = {};                       ///< config.json, for what one family alone has
};

/// Reads and checks a model's config.json; `overrides` sets dropout, pooling and activation checkpointing.
/// Throws `CheckpointError`: unknown model_type or activation (with the nearest known), a size that is
/// missing or not positive, heads that do not divide the width, decoder settings, and what the family's
/// encoder here does not do.
EncoderConfig read_encoder_config(const Json& json, const ModelConfig& overrides);

}  // namespace finetune
