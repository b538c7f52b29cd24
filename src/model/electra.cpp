#include "families.h"
#include "heads.h"
#include "post_norm_encoder.h"

/// ELECTRA's discriminator (Clark et al. 2020), as `transformers.models.electra` builds it: BERT whose
/// embeddings may be narrower than its layers, and another head.
namespace finetune {
namespace {

EncoderConfig read_electra_config(const ConfigReader& reader, const ModelConfig& overrides) {
  EncoderConfig config = read_common_config(reader, overrides);
  config.num_token_types = reader.positive("type_vocab_size");
  reader.positive("embedding_size");
  return config;
}

std::unique_ptr<Encoder> make_electra(const EncoderConfig& config, ParameterStore& store) {
  PostNormSpec spec = bert_like_spec(config, "electra.");
  const int64_t width = ConfigReader(config.source).positive("embedding_size");
  spec.embeddings.width = width;
  spec.embeddings.hidden_size = width;
  if (width != config.hidden_size) spec.projection = "embeddings_project";
  return std::make_unique<PostNormEncoder>(config, spec, store);
}

std::unique_ptr<Head> make_electra_sequence_head(const EncoderConfig& config, int64_t num_outputs,
                                                 ParameterStore& store) {
  return make_dense_head({.dense = "classifier.dense",
                          .output = "classifier.out_proj",
                          .activation = kernels::Activation::kGelu,
                          .input_dropout = config.classifier_dropout,
                          .dropout = config.classifier_dropout},
                         config.hidden_size, num_outputs, store);
}

}  // namespace

const Family kElectra{
    "electra", "Electra", read_electra_config, make_electra, make_electra_sequence_head, make_token_head};

}  // namespace finetune
