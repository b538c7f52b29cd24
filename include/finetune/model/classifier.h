#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "finetune/model/encoder.h"
#include "finetune/model/head.h"

namespace finetune {

/// An encoder and the head that Hugging Face's classifier of its family has.
class Classifier {
 public:
  /// Creates every parameter on `device`, uninitialised. `precision`: of the encoder's activations and
  /// products (float32, bfloat16 or float16); parameters are float32, and the head always computes in it.
  /// `recipe`: `freeze`, patterns of the names of parameters that keep their values; `lora`: of the encoder
  /// only adapters learn. Throws `ConfigError` for a pattern that is found in no name, and where nothing is
  /// left to learn.
  Classifier(const EncoderConfig& config, const HeadConfig& head, c10::Device device,
             at::ScalarType precision = at::kFloat, const ModelConfig& recipe = {});

  /// Logits float32: see `Head::forward`.
  at::Tensor forward(const Batch& batch, const ForwardMode& mode) const;

  /// Of how many tokens of a batch the head reads the hidden states (see `Head::tokens_read`).
  int64_t num_tokens_read(const Batch& batch) const;

  const EncoderConfig& config() const { return config_; }
  const std::vector<Parameter>& parameters() const { return store_.parameters(); }
  std::string base_prefix() const { return encoder_->base_prefix(); }

  /// Whether a parameter is the head's, or its pooler's, and not the encoder's.
  bool is_of_head(const std::string& parameter_name) const;

  /// The parameters for which `learns` is false cost no gradient's work until the next call. Their gradients
  /// stay what they are.
  void let_learn(const std::function<bool(const std::string& name)>& learns) { store_.let_learn(learns); }

  /// Gives every parameter its initial value (see `initialize`).
  void initialize_parameters(uint64_t seed);
  /// The same for some, by name: what a weights file did not fill. Drawing values for all of a model takes
  /// longer than reading them.
  void initialize_parameters(uint64_t seed, const std::vector<std::string>& names);

 private:
  void freeze_parameters(const ModelConfig& recipe);

  EncoderConfig config_;
  ParameterStore store_;
  std::unique_ptr<Encoder> encoder_;
  std::unique_ptr<Head> head_;
};

}  // namespace finetune
