#include "finetune/model/encoder_config.h"

#include "config_reader.h"
#include "families.h"

namespace finetune {
namespace {

void refuse_unsupported(const ConfigReader& reader) {
  const std::string positions = reader.text("position_embedding_type", "absolute");
  if (positions != "absolute") {
    refuse_setting("position_embedding_type", "'" + positions + "'",
                   "expected 'absolute'. Choose a model with absolute positions");
  }
  for (const char* key : {"is_decoder", "add_cross_attention", "is_encoder_decoder"}) {
    if (reader.flag(key)) {
      throw CheckpointError(
          std::string("config.json: ") + key +
          " is true: this is a decoder, and finetune trains encoders; set it to false if the model "
          "is used as an encoder");
    }
  }
}

}  // namespace

EncoderConfig read_encoder_config(const Json& json, const ModelConfig& overrides) {
  const ConfigReader reader(json);
  const Family& family = family_of(reader.text("model_type", "bert"));
  refuse_unsupported(reader);
  EncoderConfig config = family.read_config(reader, overrides);
  config.model_type = family.model_type;
  config.pooling = overrides.pooling;
  return config;
}

}  // namespace finetune
