#pragma once

#include <optional>
#include <string>

#include "finetune/model/head.h"

namespace finetune {

/// The dropout site in front of a head's last layer: far above what any encoder's layers use. A head that
/// drops more takes the next ones.
constexpr int64_t kClassifierSite = 60000;

/// The hidden states a head reads, in float32, and what their dropout depends on.
struct HeadInput {
  at::Tensor states;      ///< [R, H] float32
  at::Tensor token_keys;  ///< [R] int64; undefined but in training
};
/// hidden_states [R, H]: of `tokens` [R].
HeadInput head_input(const at::Tensor& hidden_states, const at::Tensor& tokens, const Batch& batch,
                     const ForwardMode& mode);

/// The first token of each row: [B] int32.
at::Tensor first_tokens(const Batch& batch);

/// A sequence head over each row's first token: dropout, a dense layer with an activation, dropout, a linear
/// layer.
struct DenseHeadSpec {
  std::string dense;
  std::string output = "classifier";
  kernels::Activation activation = kernels::Activation::kTanh;
  double input_dropout = 0.0;
  double dropout = 0.0;
};
std::unique_ptr<Head> make_dense_head(const DenseHeadSpec& spec, int64_t hidden_size, int64_t num_outputs,
                                      ParameterStore& store);

/// Dropout and a linear layer `classifier` over each row's first token, or over the mean of its tokens, as
/// `config.pooling` says: no family's own head in transformers.
std::unique_ptr<Head> make_pooling_head(const EncoderConfig& config, int64_t num_outputs,
                                        ParameterStore& store);

/// The names of a family's `...ForMaskedLM`: a dense layer, a norm, the bias of the output layer, and the
/// word embeddings that this is tied to.
struct MaskedLmSpec {
  std::string dense, norm, bias, words;
  std::optional<kernels::Activation> activation = {};  ///< unset: the encoder's
};
std::unique_ptr<Head> make_masked_lm_head(const MaskedLmSpec& spec, const EncoderConfig& config,
                                          ParameterStore& store);

/// Dropout and a linear layer `classifier` over the batch's `positions`: what most families'
/// `...ForTokenClassification` is.
std::unique_ptr<Head> make_token_head(const EncoderConfig& config, int64_t num_outputs,
                                      ParameterStore& store);

}  // namespace finetune
