#include "families.h"
#include "heads.h"
#include "post_norm_encoder.h"

/// RoBERTa (Liu et al. 2019), XLM-RoBERTa (Conneau et al. 2020) and CamemBERT (Martin et al. 2020), as
/// `transformers.models.roberta` builds them: BERT whose positions begin above the padding token's id, so
/// that a row has that many tokens fewer than the table has rows, and another head.
namespace finetune {
namespace {

EncoderConfig read_roberta_config(const ConfigReader& reader, const ModelConfig& overrides) {
  EncoderConfig config = read_common_config(reader, overrides, {.default_pad_token_id = 1});
  config.num_token_types = reader.positive("type_vocab_size");
  const int64_t rows = config.max_positions;
  config.max_positions = rows - config.pad_token_id - 1;
  if (config.pad_token_id < 0 || config.max_positions < 1) {
    throw CheckpointError("config.json: pad_token_id: found " + std::to_string(config.pad_token_id) +
                          ", expected 0 to " + std::to_string(rows - 2) +
                          ": positions begin above it, and max_position_embeddings is " +
                          std::to_string(rows));
  }
  return config;
}

std::unique_ptr<Encoder> make_roberta(const EncoderConfig& config, ParameterStore& store) {
  PostNormSpec spec = bert_like_spec(config, "roberta.");
  spec.embeddings.num_positions = config.max_positions + config.pad_token_id + 1;
  spec.embeddings.padding_id = config.pad_token_id;
  spec.embeddings.positions_last = true;
  return std::make_unique<PostNormEncoder>(config, spec, store);
}

std::unique_ptr<Head> make_roberta_sequence_head(const EncoderConfig& config, int64_t num_outputs,
                                                 ParameterStore& store) {
  return make_dense_head({.dense = "classifier.dense",
                          .output = "classifier.out_proj",
                          .activation = kernels::Activation::kTanh,
                          .input_dropout = config.classifier_dropout,
                          .dropout = config.classifier_dropout},
                         config.hidden_size, num_outputs, store);
}

std::unique_ptr<Head> make_roberta_masked_lm_head(const EncoderConfig& config, int64_t,
                                                  ParameterStore& store) {
  return make_masked_lm_head({.dense = "lm_head.dense",
                              .norm = "lm_head.layer_norm",
                              .bias = "lm_head.bias",
                              .words = "roberta.embeddings.word_embeddings.weight",
                              .activation = kernels::Activation::kGelu},
                             config, store);
}

constexpr Family roberta_family(const char* model_type, const char* class_name) {
  return {model_type,
          class_name,
          read_roberta_config,
          make_roberta,
          make_roberta_sequence_head,
          make_token_head,
          make_roberta_masked_lm_head};
}

}  // namespace

const Family kRoberta = roberta_family("roberta", "Roberta");
const Family kXlmRoberta = roberta_family("xlm-roberta", "XLMRoberta");
const Family kCamembert = roberta_family("camembert", "Camembert");

}  // namespace finetune
