#pragma once

#include <memory>

#include "finetune/model/encoder.h"

namespace finetune {

/// BERT (Devlin et al. 2019), as `transformers.models.bert` builds it: post-norm layers, learned absolute
/// positions, token types, and a pooler (dense + tanh over the first token).
std::unique_ptr<Encoder> make_bert(const EncoderConfig& config, ParameterStore& store);

}  // namespace finetune
