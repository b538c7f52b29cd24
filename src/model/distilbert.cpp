#include "families.h"
#include "heads.h"
#include "post_norm_encoder.h"

/// DistilBERT (Sanh et al. 2019), as `transformers.models.distilbert` builds it: BERT without token types and
/// without dropout of what attention gives.
namespace finetune {
namespace {

constexpr LayerNames kNames{.query = "attention.q_lin",
                            .key = "attention.k_lin",
                            .value = "attention.v_lin",
                            .attention_output = "attention.out_lin",
                            .attention_norm = "sa_layer_norm",
                            .intermediate = "ffn.lin1",
                            .output = "ffn.lin2",
                            .output_norm = "output_layer_norm"};

EncoderConfig read_distilbert_config(const ConfigReader& reader, const ModelConfig& overrides) {
  EncoderConfig config = read_common_config(reader, overrides,
                                            {.hidden_size = "dim",
                                             .num_layers = "n_layers",
                                             .num_heads = "n_heads",
                                             .intermediate_size = "hidden_dim",
                                             .activation = "activation",
                                             .dropout = "dropout",
                                             .attention_dropout = "attention_dropout",
                                             .classifier_dropout = "seq_classif_dropout",
                                             .default_classifier_dropout = 0.2});
  config.layer_norm_eps = 1e-12;  // transformers has it in the code
  config.token_classifier_dropout = overrides.classifier_dropout.value_or(config.dropout);
  return config;
}

std::unique_ptr<Encoder> make_distilbert(const EncoderConfig& config, ParameterStore& store) {
  PostNormSpec spec = bert_like_spec(config, "distilbert.", "transformer.layer.");
  spec.names = kNames;
  spec.dropout.attention_output = 0.0;
  return std::make_unique<PostNormEncoder>(config, spec, store);
}

std::unique_ptr<Head> make_distilbert_sequence_head(const EncoderConfig& config, int64_t num_outputs,
                                                    ParameterStore& store) {
  return make_dense_head({.dense = "pre_classifier",
                          .activation = kernels::Activation::kRelu,
                          .dropout = config.classifier_dropout},
                         config.hidden_size, num_outputs, store);
}

std::unique_ptr<Head> make_distilbert_masked_lm_head(const EncoderConfig& config, int64_t,
                                                     ParameterStore& store) {
  return make_masked_lm_head({.dense = "vocab_transform",
                              .norm = "vocab_layer_norm",
                              .bias = "vocab_projector.bias",
                              .words = "distilbert.embeddings.word_embeddings.weight"},
                             config, store);
}

}  // namespace

const Family kDistilBert{"distilbert",
                         "DistilBert",
                         read_distilbert_config,
                         make_distilbert,
                         make_distilbert_sequence_head,
                         make_token_head,
                         make_distilbert_masked_lm_head};

}  // namespace finetune
