#include "config_reader.h"

#include <vector>

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

[[noreturn]] void throw_unexpected(const std::string& key, const Json* found, const char* expected) {
  throw CheckpointError("config.json: " + key + ": found " + (found == nullptr ? "nothing" : found->dump()) +
                        ", expected " + expected);
}

}  // namespace

const Json* ConfigReader::find(const std::string& key) const {
  const auto value = json_.find(key);
  return value == json_.end() || value->is_null() ? nullptr : &*value;
}

int64_t ConfigReader::positive(const std::string& key) const {
  const auto value = json_.find(key);
  const Json* const found = value == json_.end() ? nullptr : &*value;
  if (found == nullptr || !found->is_number_integer() || found->get<int64_t>() <= 0) {
    throw_unexpected(key, found, "a positive integer");
  }
  return found->get<int64_t>();
}

int64_t ConfigReader::integer(const std::string& key, int64_t fallback) const {
  const Json* const found = find(key);
  if (found == nullptr) return fallback;
  if (!found->is_number_integer()) throw_unexpected(key, found, "an integer");
  return found->get<int64_t>();
}

double ConfigReader::number(const std::string& key, double fallback) const {
  const Json* const found = find(key);
  if (found == nullptr) return fallback;
  if (!found->is_number()) throw_unexpected(key, found, "a number");
  return found->get<double>();
}

std::string ConfigReader::text(const std::string& key, const std::string& fallback) const {
  const Json* const found = find(key);
  if (found == nullptr) return fallback;
  if (!found->is_string()) throw_unexpected(key, found, "a string");
  return found->get<std::string>();
}

bool ConfigReader::flag(const std::string& key, bool fallback) const {
  const Json* const found = find(key);
  if (found == nullptr) return fallback;
  if (!found->is_boolean()) throw_unexpected(key, found, "true or false");
  return found->get<bool>();
}

Activation ConfigReader::activation(const std::string& key, const std::string& fallback) const {
  const std::string name = text(key, fallback);
  std::vector<std::string> known;
  for (const auto& [known_name, activation] : activations()) {
    if (known_name == name) return activation;
    known.push_back(known_name);
  }
  const auto near = nearest_name(name, known);
  throw CheckpointError("config.json: " + key + " '" + name + "' is not known; expected one of " +
                        join_some(known, known.size()) + (near ? "; did you mean '" + *near + "'?" : ""));
}

EncoderConfig read_common_config(const ConfigReader& reader, const ModelConfig& overrides,
                                 const ConfigKeys& keys) {
  EncoderConfig config;
  config.vocab_size = reader.positive("vocab_size");
  config.hidden_size = reader.positive(keys.hidden_size);
  config.num_layers = reader.positive(keys.num_layers);
  config.num_heads = reader.positive(keys.num_heads);
  config.intermediate_size = reader.positive(keys.intermediate_size);
  config.max_positions = reader.positive("max_position_embeddings");
  config.pad_token_id = reader.integer("pad_token_id", keys.default_pad_token_id);
  config.activation = reader.activation(keys.activation, keys.default_activation);
  config.layer_norm_eps = reader.number(keys.layer_norm_eps, keys.default_layer_norm_eps);
  config.initializer_range = reader.number("initializer_range", 0.02);
  config.dropout = overrides.dropout.value_or(reader.number(keys.dropout, keys.default_dropout));
  config.attention_dropout =
      overrides.attention_dropout.value_or(reader.number(keys.attention_dropout, keys.default_dropout));
  config.classifier_dropout = overrides.classifier_dropout.value_or(
      reader.number(keys.classifier_dropout, keys.default_classifier_dropout.value_or(config.dropout)));
  config.token_classifier_dropout = config.classifier_dropout;
  config.activation_checkpointing = overrides.activation_checkpointing;
  config.source = reader.json();
  if (config.hidden_size % config.num_heads != 0) {
    throw CheckpointError("config.json: " + std::string(keys.num_heads) + " " +
                          std::to_string(config.num_heads) + " does not divide " + keys.hidden_size + " " +
                          std::to_string(config.hidden_size));
  }
  return config;
}

void refuse_setting(const std::string& key, const std::string& found, const std::string& remedy) {
  throw CheckpointError("config.json: " + key + " " + found + " is not supported; " + remedy);
}

}  // namespace finetune
