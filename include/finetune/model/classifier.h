#pragma once

#include <memory>
#include <vector>

#include "finetune/model/encoder.h"

namespace finetune {

/// An encoder and the head that Hugging Face's `...ForSequenceClassification` puts on it.
class SequenceClassifier {
 public:
  /// Creates every parameter on `device`, uninitialised. `precision`: of the encoder's activations and
  /// products (float32, bfloat16 or float16); parameters are float32, and the head always computes in it.
  SequenceClassifier(const EncoderConfig& config, int64_t num_labels, c10::Device device,
                     at::ScalarType precision = at::kFloat);

  /// Logits [B, num_labels] float32.
  at::Tensor forward(const Batch& batch, const ForwardMode& mode) const;

  const EncoderConfig& config() const { return config_; }
  const std::vector<Parameter>& parameters() const { return store_.parameters(); }
  std::string base_prefix() const { return encoder_->base_prefix(); }

  /// Gives every parameter its initial value (see `initialize`).
  void initialize_parameters(uint64_t seed);
  /// The same for some, by name: what a weights file did not fill. Drawing values for all of a model takes
  /// longer than reading them.
  void initialize_parameters(uint64_t seed, const std::vector<std::string>& names);

 private:
  EncoderConfig config_;
  ParameterStore store_;
  std::unique_ptr<Encoder> encoder_;
  at::Tensor weight_;  ///< [num_labels, H]
  at::Tensor bias_;    ///< [num_labels]
};

}  // namespace finetune
