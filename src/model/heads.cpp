#include "heads.h"

#include <ATen/ATen.h>

#include "token_selection.h"

namespace finetune {
namespace {

class DenseHead final : public Head {
 public:
  DenseHead(const DenseHeadSpec& spec, int64_t hidden_size, int64_t num_outputs, ParameterStore& store)
      : activation_(spec.activation),
        input_dropout_(spec.input_dropout),
        dropout_(spec.dropout),
        dense_weight_(store.add(spec.dense + ".weight", {hidden_size, hidden_size})),
        dense_bias_(store.add(spec.dense + ".bias", {hidden_size})),
        weight_(store.add(spec.output + ".weight", {num_outputs, hidden_size})),
        bias_(store.add(spec.output + ".bias", {num_outputs})) {}

  at::Tensor tokens_read(const Batch& batch) const override { return first_tokens(batch); }

  at::Tensor forward(const at::Tensor& hidden_states, const Batch& batch,
                     const ForwardMode& mode) const override {
    const HeadInput first = head_input(hidden_states, first_tokens(batch), batch, mode);  // [B, H]
    const auto input =
        kernels::dropout(first.states, mode.dropout(input_dropout_, kClassifierSite + 1, first.token_keys));
    const auto dense =
        kernels::bias_activation(kernels::linear(input, dense_weight_), dense_bias_, activation_);
    const auto dropped = kernels::dropout(dense, mode.dropout(dropout_, kClassifierSite, first.token_keys));
    return kernels::add_bias(kernels::linear(dropped, weight_), bias_);  // [B, num_outputs]
  }

 private:
  kernels::Activation activation_;
  double input_dropout_, dropout_;
  at::Tensor dense_weight_, dense_bias_, weight_, bias_;
};

class PoolingHead final : public Head {
 public:
  PoolingHead(const EncoderConfig& config, int64_t num_outputs, ParameterStore& store)
      : mean_(config.pooling == Pooling::kMean),
        dropout_(config.classifier_dropout),
        weight_(store.add("classifier.weight", {num_outputs, config.hidden_size})),
        bias_(store.add("classifier.bias", {num_outputs})) {}

  at::Tensor tokens_read(const Batch& batch) const override {
    return mean_ ? at::Tensor() : first_tokens(batch);
  }

  at::Tensor forward(const at::Tensor& hidden_states, const Batch& batch,
                     const ForwardMode& mode) const override {
    const HeadInput first = head_input(hidden_states, first_tokens(batch), batch, mode);
    const auto pooled = mean_ ? mean_of_rows(first.states, batch) : first.states;  // [B, H]
    const auto dropped = kernels::dropout(pooled, mode.dropout(dropout_, kClassifierSite, first.token_keys));
    return kernels::add_bias(kernels::linear(dropped, weight_), bias_);  // [B, num_outputs]
  }

 private:
  /// [N, H] -> [B, H]; of an empty row, zeros.
  static at::Tensor mean_of_rows(const at::Tensor& states, const Batch& batch) {
    const auto ends = batch.cu_seqlens.narrow(0, 0, batch.num_rows + 1).to(at::kLong);
    const auto sums = at::segment_reduce(states, "sum", /*lengths=*/{}, /*indices=*/{}, ends, /*axis=*/0,
                                         /*unsafe=*/true, /*initial=*/0.0);
    return sums / ends.diff().clamp_min(1).to(at::kFloat).unsqueeze(1);
  }

  bool mean_;
  double dropout_;
  at::Tensor weight_, bias_;
};

class TokenHead final : public Head {
 public:
  TokenHead(const EncoderConfig& config, int64_t num_outputs, ParameterStore& store)
      : dropout_(config.token_classifier_dropout),
        weight_(store.add("classifier.weight", {num_outputs, config.hidden_size})),
        bias_(store.add("classifier.bias", {num_outputs})) {}

  at::Tensor tokens_read(const Batch& batch) const override { return batch.positions; }

  at::Tensor forward(const at::Tensor& hidden_states, const Batch& batch,
                     const ForwardMode& mode) const override {
    const HeadInput input = head_input(hidden_states, batch.positions, batch, mode);  // [P, H]
    const auto dropped =
        kernels::dropout(input.states, mode.dropout(dropout_, kClassifierSite, input.token_keys));
    return kernels::add_bias(kernels::linear(dropped, weight_), bias_);  // [P, num_outputs]
  }

 private:
  double dropout_;
  at::Tensor weight_, bias_;
};

}  // namespace

HeadInput head_input(const at::Tensor& hidden_states, const at::Tensor& tokens, const Batch& batch,
                     const ForwardMode& mode) {
  return {.states = hidden_states.to(at::kFloat),
          .token_keys = mode.training ? select_tokens(batch.token_keys, tokens) : at::Tensor()};
}

at::Tensor first_tokens(const Batch& batch) { return batch.cu_seqlens.narrow(0, 0, batch.num_rows); }

std::unique_ptr<Head> make_dense_head(const DenseHeadSpec& spec, int64_t hidden_size, int64_t num_outputs,
                                      ParameterStore& store) {
  return std::make_unique<DenseHead>(spec, hidden_size, num_outputs, store);
}

std::unique_ptr<Head> make_pooling_head(const EncoderConfig& config, int64_t num_outputs,
                                        ParameterStore& store) {
  return std::make_unique<PoolingHead>(config, num_outputs, store);
}

std::unique_ptr<Head> make_token_head(const EncoderConfig& config, int64_t num_outputs,
                                      ParameterStore& store) {
  return std::make_unique<TokenHead>(config, num_outputs, store);
}

}  // namespace finetune
