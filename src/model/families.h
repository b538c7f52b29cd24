#pragma once

#include <memory>
#include <string>

#include "config_reader.h"
#include "finetune/model/encoder.h"
#include "finetune/model/head.h"

namespace finetune {

using MakeHead = std::unique_ptr<Head> (*)(const EncoderConfig&, int64_t num_outputs, ParameterStore&);

/// All that a family of encoders is: how its config.json is read, its encoder, its heads. Each has a file of
/// its own.
struct Family {
  const char* model_type;
  const char* class_name;  ///< what transformers' classes begin with
  EncoderConfig (*read_config)(const ConfigReader&, const ModelConfig& overrides);
  std::unique_ptr<Encoder> (*make_encoder)(const EncoderConfig&, ParameterStore&);
  MakeHead make_sequence_head;
  MakeHead make_token_head;
  MakeHead make_masked_lm_head = nullptr;  ///< where it is known
};

extern const Family kBert, kRoberta, kXlmRoberta, kCamembert, kDistilBert, kElectra, kAlbert, kMpnet,
    kDebertaV2, kModernBert;

/// Throws `CheckpointError` for a model_type that is none of these, with the nearest.
const Family& family_of(const std::string& model_type);

}  // namespace finetune
