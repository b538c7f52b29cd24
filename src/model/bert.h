#pragma once

#include <memory>

#include "finetune/model/encoder.h"
#include "finetune/model/head.h"

namespace finetune {

/// BERT (Devlin et al. 2019), as `transformers.models.bert` builds it: post-norm layers, learned absolute
/// positions, and token types.
std::unique_ptr<Encoder> make_bert(const EncoderConfig& config, ParameterStore& store);

/// `BertForSequenceClassification`'s head.
std::unique_ptr<Head> make_bert_sequence_head(const EncoderConfig& config, int64_t num_outputs,
                                              ParameterStore& store);

}  // namespace finetune
