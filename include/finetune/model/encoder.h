#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "finetune/batching/batch.h"
#include "finetune/model/encoder_config.h"
#include "finetune/model/parameter.h"

namespace finetune {

/// Whether, and from which state, a forward pass draws dropout.
struct ForwardMode {
  bool training = false;
  at::Tensor rng;  ///< [2] int64 on the device: seed, step; needed in training

  kernels::Dropout dropout(double probability, int64_t site, const at::Tensor& token_keys) const {
    if (!training || probability == 0.0) return {};
    return {.probability = probability, .site = site, .rng = rng, .token_keys = token_keys};
  }
};

/// A family of encoders over packed rows.
class Encoder {
 public:
  virtual ~Encoder() = default;

  /// Hidden states of the last layer: [N, H] in the precision of the store's activations.
  virtual at::Tensor forward(const Batch& batch, const ForwardMode& mode) const = 0;

  /// What the family's own sequence head reads: [B, H] float32, from hidden states [N, H].
  virtual at::Tensor pool(const at::Tensor& hidden_states, const Batch& batch) const = 0;

  /// The prefix of the encoder's parameter names in the family's classifiers ("bert.").
  virtual std::string base_prefix() const = 0;
};

/// Builds the encoder of `config.model_type` with its parameters on the store's device. The registry of
/// families is `src/model/encoder.cpp`.
std::unique_ptr<Encoder> make_encoder(const EncoderConfig& config, ParameterStore& store);

}  // namespace finetune
