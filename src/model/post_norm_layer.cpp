#include "post_norm_layer.h"

#include <cmath>

#include "token_selection.h"

namespace finetune {
namespace {

/// The dropout sites of a layer; the embeddings' is 0, layer l's begin at 1 + l * kNumSites.
enum Site : int64_t { kAttentionProbabilities, kAttentionOutput, kFeedForwardOutput, kNumSites };

}  // namespace

PostNormLayer::PostNormLayer(const EncoderConfig& config, const LayerNames& names, const std::string& prefix,
                             const LayerDropout& dropout, ParameterStore& store,
                             const std::function<void()>& after_qkv)
    : hidden_size_(config.hidden_size),
      activation_(config.activation),
      norm_eps_(config.layer_norm_eps),
      attention_dropout_(config.attention_dropout),
      dropout_(dropout) {
  const int64_t h = config.hidden_size, i = config.intermediate_size;
  const auto bias_of = [&](const char* name) { return prefix + name + ".bias"; };
  if (names.output_norm_first) add_output_norm(prefix + names.output_norm, store);
  qkv_ = store.add_projection({prefix + names.query, prefix + names.key, prefix + names.value}, {h, h});
  qkv_bias_ = store.add_stacked({bias_of(names.query), bias_of(names.key), bias_of(names.value)}, {h});
  after_qkv();
  attention_output_ = store.add_projection(prefix + names.attention_output, {h, h});
  attention_bias_ = store.add(bias_of(names.attention_output), {h});
  attention_norm_weight_ = store.add(prefix + names.attention_norm + ".weight", {h});
  attention_norm_bias_ = store.add(bias_of(names.attention_norm), {h});
  intermediate_ = store.add_projection(prefix + names.intermediate, {i, h});
  intermediate_bias_ = store.add(bias_of(names.intermediate), {i});
  output_ = store.add_projection(prefix + names.output, {h, i});
  output_bias_ = store.add(bias_of(names.output), {h});
  if (!names.output_norm_first) add_output_norm(prefix + names.output_norm, store);
}

void PostNormLayer::add_output_norm(const std::string& name, ParameterStore& store) {
  output_norm_weight_ = store.add(name + ".weight", {hidden_size_});
  output_norm_bias_ = store.add(name + ".bias", {hidden_size_});
}

at::Tensor PostNormLayer::forward(const at::Tensor& x, const Batch& batch, const at::Tensor& tokens,
                                  const ForwardMode& mode, int64_t number, const Attention& attention) const {
  const auto drop = [&](double probability, Site site, const at::Tensor& token_keys) {
    return mode.dropout(probability, 1 + number * kNumSites + site, token_keys);
  };
  const auto qkv = project(x, qkv_, mode, batch.token_keys);  // [N, 3H]
  const auto context =
      attention(*this, number, qkv, drop(attention_dropout_, kAttentionProbabilities, batch.token_keys));
  // Tokens meet in attention only: from here on, those that nobody reads are left out.
  const auto keys = mode.training ? select_tokens(batch.token_keys, tokens) : at::Tensor();
  const auto attended = kernels::dropout_add_layer_norm(
      project(select_tokens(context, tokens), attention_output_, mode, keys), attention_bias_,
      select_tokens(x, tokens), attention_norm_weight_, attention_norm_bias_, norm_eps_,
      drop(dropout_.attention_output, kAttentionOutput, keys));
  const auto intermediate = kernels::bias_activation(project(attended, intermediate_, mode, keys),
                                                     intermediate_bias_, activation_);  // [R, I]
  return kernels::dropout_add_layer_norm(project(intermediate, output_, mode, keys), output_bias_, attended,
                                         output_norm_weight_, output_norm_bias_, norm_eps_,
                                         drop(dropout_.feed_forward, kFeedForwardOutput, keys));
}

Attention plain_attention(const EncoderConfig& config, const Batch& batch) {
  const int64_t num_heads = config.num_heads;
  const double scale = 1.0 / std::sqrt(static_cast<double>(config.hidden_size / num_heads));
  return [=, cu_seqlens = batch.cu_seqlens, max_length = batch.max_length](
             const PostNormLayer& layer, int64_t, const at::Tensor& qkv, const kernels::Dropout& dropout) {
    return kernels::packed_attention(qkv, layer.qkv_bias(), cu_seqlens, max_length, num_heads, scale,
                                     dropout);
  };
}

}  // namespace finetune
