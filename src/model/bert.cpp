#include "families.h"
#include "heads.h"
#include "post_norm_encoder.h"

/// BERT (Devlin et al. 2019), as `transformers.models.bert` builds it: post-norm layers, learned absolute
/// positions, and token types.
namespace finetune {
namespace {

EncoderConfig read_bert_config(const ConfigReader& reader, const ModelConfig& overrides) {
  EncoderConfig config = read_common_config(reader, overrides);
  config.num_token_types = reader.positive("type_vocab_size");
  return config;
}

std::unique_ptr<Encoder> make_bert(const EncoderConfig& config, ParameterStore& store) {
  return std::make_unique<PostNormEncoder>(config, bert_like_spec(config, "bert."), store);
}

std::unique_ptr<Head> make_bert_sequence_head(const EncoderConfig& config, int64_t num_outputs,
                                              ParameterStore& store) {
  return make_dense_head({.dense = "bert.pooler.dense",
                          .activation = kernels::Activation::kTanh,
                          .dropout = config.classifier_dropout},
                         config.hidden_size, num_outputs, store);
}

std::unique_ptr<Head> make_bert_masked_lm_head(const EncoderConfig& config, int64_t, ParameterStore& store) {
  return make_masked_lm_head({.dense = "cls.predictions.transform.dense",
                              .norm = "cls.predictions.transform.LayerNorm",
                              .bias = "cls.predictions.bias",
                              .words = "bert.embeddings.word_embeddings.weight"},
                             config, store);
}

}  // namespace

const Family kBert{"bert",
                   "Bert",
                   read_bert_config,
                   make_bert,
                   make_bert_sequence_head,
                   make_token_head,
                   make_bert_masked_lm_head};

}  // namespace finetune
