#include "heads.h"

namespace finetune {
namespace {

/// A dense layer with an activation, LayerNorm, and the word embeddings as the output layer, which they are
/// tied to, with a bias of its own.
class MaskedLmHead final : public Head {
 public:
  MaskedLmHead(const MaskedLmSpec& spec, const EncoderConfig& config, ParameterStore& store)
      : activation_(spec.activation.value_or(config.activation)),
        norm_eps_(config.layer_norm_eps),
        dense_weight_(store.add(spec.dense + ".weight", {config.hidden_size, config.hidden_size})),
        dense_bias_(store.add(spec.dense + ".bias", {config.hidden_size})),
        norm_weight_(store.add(spec.norm + ".weight", {config.hidden_size})),
        norm_bias_(store.add(spec.norm + ".bias", {config.hidden_size})),
        words_(store.leaf(spec.words)),
        bias_(store.add(spec.bias, {config.vocab_size})) {}

  at::Tensor tokens_read(const Batch& batch) const override { return batch.positions; }

  at::Tensor forward(const at::Tensor& hidden_states, const Batch& batch,
                     const ForwardMode& mode) const override {
    const HeadInput input = head_input(hidden_states, batch.positions, batch, mode);  // [P, H]
    const auto dense =
        kernels::bias_activation(kernels::linear(input.states, dense_weight_), dense_bias_, activation_);
    const auto normed = kernels::layer_norm(dense, norm_weight_, norm_bias_, norm_eps_);
    return kernels::add_bias(kernels::linear(normed, words_), bias_);  // [P, vocab_size]
  }

 private:
  kernels::Activation activation_;
  double norm_eps_;
  at::Tensor dense_weight_, dense_bias_, norm_weight_, norm_bias_, words_, bias_;
};

}  // namespace

std::unique_ptr<Head> make_masked_lm_head(const MaskedLmSpec& spec, const EncoderConfig& config,
                                          ParameterStore& store) {
  return std::make_unique<MaskedLmHead>(spec, config, store);
}

}  // namespace finetune
