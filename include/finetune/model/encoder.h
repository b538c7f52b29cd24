#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "finetune/batching/batch.h"
#include "finetune/model/encoder_config.h"
#include "finetune/model/forward_mode.h"
#include "finetune/model/parameter.h"

namespace finetune {

/// A family of encoders over packed rows.
class Encoder {
 public:
  virtual ~Encoder() = default;

  /// Hidden states of the last layer at `tokens` ([R] int32 or int64, into the batch's N): [R, H] in the
  /// precision of the store's activations. The last layer computes nothing else after its attention.
  /// Undefined `tokens`: all, [N, H].
  virtual at::Tensor forward(const Batch& batch, const at::Tensor& tokens, const ForwardMode& mode) const = 0;

  /// The prefix of the encoder's parameter names in the family's classifiers ("bert.").
  virtual std::string base_prefix() const = 0;
};

/// Builds the encoder of `config.model_type` with its parameters on the store's device. The registry of
/// families is `src/model/families.cpp`.
std::unique_ptr<Encoder> make_encoder(const EncoderConfig& config, ParameterStore& store);

}  // namespace finetune
