#include "families.h"
#include "heads.h"
#include "post_norm_encoder.h"

/// ALBERT (Lan et al. 2020), as `transformers.models.albert` builds it: narrow embeddings, and groups of
/// layers that x goes through several times.
namespace finetune {
namespace {

constexpr LayerNames kNames{.query = "attention.query",
                            .key = "attention.key",
                            .value = "attention.value",
                            .attention_output = "attention.dense",
                            .attention_norm = "attention.LayerNorm",
                            .intermediate = "ffn",
                            .output = "ffn_output",
                            .output_norm = "full_layer_layer_norm",
                            .output_norm_first = true};

struct Groups {
  int64_t embedding_size, num_groups, layers_a_group, num_passes;
};

Groups read_groups(const ConfigReader& reader) {
  const auto positive_or_one = [&](const char* key) {
    return reader.find(key) == nullptr ? int64_t{1} : reader.positive(key);
  };
  const Groups groups{.embedding_size = reader.positive("embedding_size"),
                      .num_groups = positive_or_one("num_hidden_groups"),
                      .layers_a_group = positive_or_one("inner_group_num"),
                      .num_passes = reader.positive("num_hidden_layers")};
  if (groups.num_groups > groups.num_passes) {
    refuse_setting("num_hidden_groups", std::to_string(groups.num_groups),
                   "expected at most num_hidden_layers, " + std::to_string(groups.num_passes));
  }
  return groups;
}

EncoderConfig read_albert_config(const ConfigReader& reader, const ModelConfig& overrides) {
  EncoderConfig config = read_common_config(reader, overrides,
                                            {.classifier_dropout = "classifier_dropout_prob",
                                             .default_activation = "gelu_new",
                                             .default_dropout = 0.0,
                                             .default_classifier_dropout = 0.1});
  config.num_token_types = reader.positive("type_vocab_size");
  config.num_layers *= read_groups(reader).layers_a_group;
  return config;
}

std::unique_ptr<Encoder> make_albert(const EncoderConfig& config, ParameterStore& store) {
  PostNormSpec spec = bert_like_spec(config, "albert.");
  const Groups groups = read_groups(ConfigReader(config.source));
  spec.embeddings.width = groups.embedding_size;
  spec.embeddings.hidden_size = groups.embedding_size;
  spec.projection = "encoder.embedding_hidden_mapping_in";
  spec.names = kNames;
  spec.dropout.feed_forward = 0.0;
  spec.layer_prefixes.clear();
  for (int64_t group = 0; group < groups.num_groups; ++group) {
    for (int64_t layer = 0; layer < groups.layers_a_group; ++layer) {
      spec.layer_prefixes.push_back("albert.encoder.albert_layer_groups." + std::to_string(group) +
                                    ".albert_layers." + std::to_string(layer) + ".");
    }
  }
  spec.order.clear();
  for (int64_t pass = 0; pass < groups.num_passes; ++pass) {
    const int64_t group = pass * groups.num_groups / groups.num_passes;
    for (int64_t layer = 0; layer < groups.layers_a_group; ++layer) {
      spec.order.push_back(static_cast<size_t>(group * groups.layers_a_group + layer));
    }
  }
  return std::make_unique<PostNormEncoder>(config, spec, store);
}

std::unique_ptr<Head> make_albert_sequence_head(const EncoderConfig& config, int64_t num_outputs,
                                                ParameterStore& store) {
  return make_dense_head({.dense = "albert.pooler",
                          .activation = kernels::Activation::kTanh,
                          .dropout = config.classifier_dropout},
                         config.hidden_size, num_outputs, store);
}

}  // namespace

const Family kAlbert{"albert",       "Albert", read_albert_config, make_albert, make_albert_sequence_head,
                     make_token_head};

}  // namespace finetune
