#include "bert.h"

#include <ATen/ATen.h>

#include <cmath>

#include "heads.h"
#include "recompute.h"

namespace finetune {
namespace {

/// The dropout sites of a layer; the embeddings' is 0, layer l's begin at 1 + l * kNumSites.
enum Site : int64_t { kAttentionProbabilities, kAttentionOutput, kFeedForwardOutput, kNumSites };

class BertLayer {
 public:
  BertLayer(const EncoderConfig& config, int64_t index, ParameterStore& store)
      : config_(config), first_site_(1 + index * kNumSites) {
    const int64_t h = config.hidden_size, i = config.intermediate_size;
    const std::string p = "bert.encoder.layer." + std::to_string(index) + ".";
    const std::string self = p + "attention.self.";
    qkv_weight_ =
        store.add_stacked_weight({self + "query.weight", self + "key.weight", self + "value.weight"}, {h, h});
    qkv_bias_ = store.add_stacked({self + "query.bias", self + "key.bias", self + "value.bias"}, {h});
    attention_weight_ = store.add_weight(p + "attention.output.dense.weight", {h, h});
    attention_bias_ = store.add(p + "attention.output.dense.bias", {h});
    attention_norm_weight_ = store.add(p + "attention.output.LayerNorm.weight", {h});
    attention_norm_bias_ = store.add(p + "attention.output.LayerNorm.bias", {h});
    intermediate_weight_ = store.add_weight(p + "intermediate.dense.weight", {i, h});
    intermediate_bias_ = store.add(p + "intermediate.dense.bias", {i});
    output_weight_ = store.add_weight(p + "output.dense.weight", {h, i});
    output_bias_ = store.add(p + "output.dense.bias", {h});
    output_norm_weight_ = store.add(p + "output.LayerNorm.weight", {h});
    output_norm_bias_ = store.add(p + "output.LayerNorm.bias", {h});
  }

  /// [N, H] -> [N, H]
  at::Tensor forward(const at::Tensor& x, const Batch& batch, const ForwardMode& mode) const {
    const auto drop = [&](double probability, Site site) {
      return mode.dropout(probability, first_site_ + site, batch.token_keys);
    };
    const double scale = 1.0 / std::sqrt(static_cast<double>(config_.hidden_size / config_.num_heads));
    const auto qkv = kernels::linear(x, qkv_weight_);  // [N, 3H]
    const auto context =
        kernels::packed_attention(qkv, qkv_bias_, batch.cu_seqlens, batch.max_length, config_.num_heads,
                                  scale, drop(config_.attention_dropout, kAttentionProbabilities));
    const auto attended = kernels::dropout_add_layer_norm(
        kernels::linear(context, attention_weight_), attention_bias_, x, attention_norm_weight_,
        attention_norm_bias_, config_.layer_norm_eps, drop(config_.dropout, kAttentionOutput));
    const auto intermediate = kernels::bias_activation(kernels::linear(attended, intermediate_weight_),
                                                       intermediate_bias_, config_.activation);  // [N, I]
    return kernels::dropout_add_layer_norm(kernels::linear(intermediate, output_weight_), output_bias_,
                                           attended, output_norm_weight_, output_norm_bias_,
                                           config_.layer_norm_eps, drop(config_.dropout, kFeedForwardOutput));
  }

 private:
  const EncoderConfig& config_;
  int64_t first_site_;
  kernels::Weight qkv_weight_, attention_weight_, intermediate_weight_, output_weight_;
  at::Tensor qkv_bias_, attention_bias_, attention_norm_weight_, attention_norm_bias_;
  at::Tensor intermediate_bias_, output_bias_, output_norm_weight_, output_norm_bias_;
};

class Bert final : public Encoder {
 public:
  Bert(const EncoderConfig& config, ParameterStore& store) : config_(config), precision_(store.precision()) {
    const int64_t h = config.hidden_size;
    const std::string p = "bert.embeddings.";
    word_ = store.add(p + "word_embeddings.weight", {config.vocab_size, h});
    position_ = store.add(p + "position_embeddings.weight", {config.max_positions, h});
    type_ = store.add(p + "token_type_embeddings.weight", {config.num_token_types, h});
    norm_weight_ = store.add(p + "LayerNorm.weight", {h});
    norm_bias_ = store.add(p + "LayerNorm.bias", {h});
    layers_.reserve(static_cast<size_t>(config.num_layers));
    for (int64_t i = 0; i < config.num_layers; ++i) layers_.emplace_back(config_, i, store);
  }

  at::Tensor forward(const Batch& batch, const ForwardMode& mode) const override {
    const auto embedded = kernels::embedding_sum(batch.input_ids, batch.position_ids, batch.token_type_ids,
                                                 word_, position_, type_);  // [N, H]
    auto x = kernels::layer_norm(embedded, norm_weight_, norm_bias_, config_.layer_norm_eps);
    x = kernels::dropout(x, mode.dropout(config_.dropout, 0, batch.token_keys)).to(precision_);
    for (const BertLayer& layer : layers_) {
      const auto forward = [&layer, batch, mode](const at::Tensor& input) {
        return layer.forward(input, batch, mode);
      };
      x = mode.training && config_.activation_checkpointing ? recomputed(forward, x) : forward(x);
    }
    return x;
  }

  std::string base_prefix() const override { return "bert."; }

 private:
  EncoderConfig config_;
  at::ScalarType precision_;
  at::Tensor word_, position_, type_, norm_weight_, norm_bias_;
  std::vector<BertLayer> layers_;
};

/// The pooler (dense + tanh over the first token), dropout, a linear layer.
class BertSequenceHead final : public Head {
 public:
  BertSequenceHead(const EncoderConfig& config, int64_t num_outputs, ParameterStore& store)
      : dropout_(config.classifier_dropout),
        pooler_weight_(store.add("bert.pooler.dense.weight", {config.hidden_size, config.hidden_size})),
        pooler_bias_(store.add("bert.pooler.dense.bias", {config.hidden_size})),
        weight_(store.add("classifier.weight", {num_outputs, config.hidden_size})),
        bias_(store.add("classifier.bias", {num_outputs})) {}

  at::Tensor forward(const at::Tensor& hidden_states, const Batch& batch,
                     const ForwardMode& mode) const override {
    const FirstTokens first = first_tokens(hidden_states, batch, mode);  // [B, H]
    const auto pooled = kernels::bias_activation(kernels::linear(first.states, pooler_weight_), pooler_bias_,
                                                 kernels::Activation::kTanh);
    const auto dropped = kernels::dropout(pooled, mode.dropout(dropout_, kClassifierSite, first.token_keys));
    return kernels::add_bias(kernels::linear(dropped, weight_), bias_);  // [B, num_outputs]
  }

 private:
  double dropout_;
  at::Tensor pooler_weight_, pooler_bias_, weight_, bias_;
};

}  // namespace

std::unique_ptr<Encoder> make_bert(const EncoderConfig& config, ParameterStore& store) {
  return std::make_unique<Bert>(config, store);
}

std::unique_ptr<Head> make_bert_sequence_head(const EncoderConfig& config, int64_t num_outputs,
                                              ParameterStore& store) {
  return std::make_unique<BertSequenceHead>(config, num_outputs, store);
}

}  // namespace finetune
