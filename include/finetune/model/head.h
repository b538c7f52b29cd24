#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "finetune/batching/batch.h"
#include "finetune/model/encoder_config.h"
#include "finetune/model/forward_mode.h"
#include "finetune/model/parameter.h"

namespace finetune {

/// What a model predicts for.
enum class HeadKind {
  kSequence,  ///< each row: `...ForSequenceClassification`
  kToken,     ///< positions of the rows: `...ForTokenClassification`
  kMaskedLm,  ///< the tokens at positions of the rows: `...ForMaskedLM`
};

struct HeadConfig {
  HeadKind kind = HeadKind::kSequence;
  int64_t num_outputs = 2;  ///< logits an answer
};

/// What a family's classifier puts on its hidden states. Computes in float32.
class Head {
 public:
  virtual ~Head() = default;

  /// The tokens whose hidden states it reads: [R] int32 or int64, into the batch's N. Undefined: all.
  virtual at::Tensor tokens_read(const Batch& batch) const = 0;

  /// Logits float32 [B, num_outputs] (`kSequence`), or [P, num_outputs] of the batch's `positions`
  /// (`kToken`, `kMaskedLm`), from the hidden states [R, H] of `tokens_read`.
  virtual at::Tensor forward(const at::Tensor& hidden_states, const Batch& batch,
                             const ForwardMode& mode) const = 0;
};

/// Builds the head that Hugging Face's classifier of the family has, under its names. The registry of
/// families is `src/model/families.cpp`.
std::unique_ptr<Head> make_head(const EncoderConfig& config, const HeadConfig& head, ParameterStore& store);

/// The class that loads such a model in transformers: "BertForSequenceClassification". It has none for heads
/// with another pooling than the family's: "BertModel", which loads the encoder.
std::string architecture_name(const EncoderConfig& config, HeadKind kind);

}  // namespace finetune
