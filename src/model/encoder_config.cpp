#include "finetune/model/encoder_config.h"

#include <vector>

#include "finetune/core/error.h"
#include "finetune/core/text.h"

namespace finetune {
namespace {

using kernels::Activation;

/// Hugging Face's names (transformers' ACT2FN) for the functions we have.
const std::vector<std::pair<std::string, Activation>>& activations() {
  static const std::vector<std::pair<std::string, Activation>> table{
      {"gelu", Activation::kGelu},          {"gelu_python", Activation::kGelu},
      {"gelu_new", Activation::kGeluTanh},  {"gelu_pytorch_tanh", Activation::kGeluTanh},
      {"gelu_fast", Activation::kGeluTanh}, {"quick_gelu", Activation::kQuickGelu},
      {"relu", Activation::kRelu},          {"silu", Activation::kSilu},
      {"swish", Activation::kSilu},         {"tanh", Activation::kTanh}};
  return table;
}

Activation activation_of(const std::string& name) {
  std::vector<std::string> known;
  for (const auto& [known_name, activation] : activations()) {
    if (known_name == name) return activation;
    known.push_back(known_name);
  }
  const auto near = nearest_name(name, known);
  throw CheckpointError("config.json: hidden_act '" + name + "' is not known; expected one of " +
                        join_some(known, known.size()) + (near ? "; did you mean '" + *near + "'?" : ""));
}

/// Reads typed values and names the key of a bad one.
class Reader {
 public:
  explicit Reader(const Json& json) : json_(json) {}

  int64_t positive(const char* key) const {
    const auto value = json_.find(key);
    if (value == json_.end() || !value->is_number_integer() || value->get<int64_t>() <= 0) {
      throw CheckpointError(std::string("config.json: ") + key + ": found " +
                            (value == json_.end() ? "nothing" : value->dump()) +
                            ", expected a positive integer");
    }
    return value->get<int64_t>();
  }

  double number(const char* key, double fallback) const {
    const auto value = json_.find(key);
    if (value == json_.end() || value->is_null()) return fallback;
    if (!value->is_number()) {
      throw CheckpointError(std::string("config.json: ") + key + ": found " + value->dump() +
                            ", expected a number");
    }
    return value->get<double>();
  }

  std::string text(const char* key, const std::string& fallback) const {
    const auto value = json_.find(key);
    if (value == json_.end() || value->is_null()) return fallback;
    if (!value->is_string()) {
      throw CheckpointError(std::string("config.json: ") + key + ": found " + value->dump() +
                            ", expected a string");
    }
    return value->get<std::string>();
  }

  bool flag(const char* key) const {
    const auto value = json_.find(key);
    return value != json_.end() && value->is_boolean() && value->get<bool>();
  }

 private:
  const Json& json_;
};

void refuse_unsupported(const Reader& reader) {
  const std::string positions = reader.text("position_embedding_type", "absolute");
  if (positions != "absolute") {
    throw CheckpointError("config.json: position_embedding_type '" + positions +
                          "' is not supported; expected 'absolute'. Choose a model with absolute positions");
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
  const Reader reader(json);
  refuse_unsupported(reader);
  EncoderConfig config;
  config.model_type = reader.text("model_type", "bert");
  config.vocab_size = reader.positive("vocab_size");
  config.hidden_size = reader.positive("hidden_size");
  config.num_layers = reader.positive("num_hidden_layers");
  config.num_heads = reader.positive("num_attention_heads");
  config.intermediate_size = reader.positive("intermediate_size");
  config.max_positions = reader.positive("max_position_embeddings");
  config.num_token_types = reader.positive("type_vocab_size");
  config.pad_token_id = static_cast<int64_t>(reader.number("pad_token_id", 0));
  config.activation = activation_of(reader.text("hidden_act", "gelu"));
  config.layer_norm_eps = reader.number("layer_norm_eps", 1e-12);
  config.initializer_range = reader.number("initializer_range", 0.02);
  config.dropout = overrides.dropout.value_or(reader.number("hidden_dropout_prob", 0.1));
  config.attention_dropout =
      overrides.attention_dropout.value_or(reader.number("attention_probs_dropout_prob", 0.1));
  config.activation_checkpointing = overrides.activation_checkpointing;
  config.classifier_dropout =
      overrides.classifier_dropout.value_or(reader.number("classifier_dropout", config.dropout));
  if (config.hidden_size % config.num_heads != 0) {
    throw CheckpointError("config.json: num_attention_heads " + std::to_string(config.num_heads) +
                          " does not divide hidden_size " + std::to_string(config.hidden_size));
  }
  return config;
}

}  // namespace finetune
