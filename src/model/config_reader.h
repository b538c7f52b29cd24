#pragma once

#include <optional>
#include <string>

#include "finetune/core/error.h"
#include "finetune/model/encoder_config.h"

namespace finetune {

/// Typed values of a model's config.json. Every reader throws `CheckpointError` for a value of another kind:
/// the key, what was found and what was expected. A key that is null counts as absent.
class ConfigReader {
 public:
  explicit ConfigReader(const Json& json) : json_(json) {}

  int64_t positive(const std::string& key) const;
  int64_t integer(const std::string& key, int64_t fallback) const;
  double number(const std::string& key, double fallback) const;
  std::string text(const std::string& key, const std::string& fallback) const;
  bool flag(const std::string& key, bool fallback = false) const;
  /// One of Hugging Face's names of activations.
  kernels::Activation activation(const std::string& key, const std::string& fallback) const;

  const Json& json() const { return json_; }
  /// The value, or nullptr where it is absent.
  const Json* find(const std::string& key) const;

 private:
  const Json& json_;
};

/// What a family's file calls the settings that all families have, and Hugging Face's values where a file
/// lacks them.
struct ConfigKeys {
  const char* hidden_size = "hidden_size";
  const char* num_layers = "num_hidden_layers";
  const char* num_heads = "num_attention_heads";
  const char* intermediate_size = "intermediate_size";
  const char* activation = "hidden_act";
  const char* layer_norm_eps = "layer_norm_eps";
  const char* dropout = "hidden_dropout_prob";
  const char* attention_dropout = "attention_probs_dropout_prob";
  const char* classifier_dropout = "classifier_dropout";

  const char* default_activation = "gelu";
  double default_layer_norm_eps = 1e-12;
  double default_dropout = 0.1;                           ///< of both kinds
  std::optional<double> default_classifier_dropout = {};  ///< unset: the hidden states' dropout
  int64_t default_pad_token_id = 0;
};

/// The settings that all families have. `max_positions` is max_position_embeddings, `num_token_types` 0.
EncoderConfig read_common_config(const ConfigReader& reader, const ModelConfig& overrides,
                                 const ConfigKeys& keys = {});

/// Throws `CheckpointError`: config.json's `key` is `found`, which this family's encoder here does not do.
[[noreturn]] void refuse_setting(const std::string& key, const std::string& found, const std::string& remedy);

}  // namespace finetune
