#include "heads.h"

#include <ATen/ATen.h>

namespace finetune {
namespace {

class TokenHead final : public Head {
 public:
  TokenHead(const EncoderConfig& config, int64_t num_outputs, ParameterStore& store)
      : dropout_(config.classifier_dropout),
        weight_(store.add("classifier.weight", {num_outputs, config.hidden_size})),
        bias_(store.add("classifier.bias", {num_outputs})) {}

  at::Tensor forward(const at::Tensor& hidden_states, const Batch& batch,
                     const ForwardMode& mode) const override {
    const auto states = hidden_states.index_select(0, batch.positions).to(at::kFloat);  // [P, H]
    const auto keys = mode.training ? batch.token_keys.index_select(0, batch.positions) : at::Tensor();
    const auto dropped = kernels::dropout(states, mode.dropout(dropout_, kClassifierSite, keys));
    return kernels::add_bias(kernels::linear(dropped, weight_), bias_);  // [P, num_outputs]
  }

 private:
  double dropout_;
  at::Tensor weight_, bias_;
};

}  // namespace

FirstTokens first_tokens(const at::Tensor& hidden_states, const Batch& batch, const ForwardMode& mode) {
  const auto first = batch.cu_seqlens.narrow(0, 0, batch.num_rows);
  return {.states = hidden_states.index_select(0, first).to(at::kFloat),
          .token_keys = mode.training ? batch.token_keys.index_select(0, first) : at::Tensor()};
}

std::unique_ptr<Head> make_token_head(const EncoderConfig& config, int64_t num_outputs,
                                      ParameterStore& store) {
  return std::make_unique<TokenHead>(config, num_outputs, store);
}

}  // namespace finetune
