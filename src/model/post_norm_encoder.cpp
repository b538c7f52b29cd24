#include "post_norm_encoder.h"

#include <ATen/ATen.h>

#include <numeric>
#include <utility>

#include "recompute.h"

namespace finetune {

PostNormSpec bert_like_spec(const EncoderConfig& config, const std::string& base_prefix,
                            const std::string& layers) {
  PostNormSpec spec;
  spec.base_prefix = base_prefix;
  spec.embeddings = {.prefix = base_prefix + "embeddings.",
                     .vocab_size = config.vocab_size,
                     .width = config.hidden_size,
                     .hidden_size = config.hidden_size,
                     .num_positions = config.max_positions,
                     .num_token_types = config.num_token_types,
                     .norm_eps = config.layer_norm_eps,
                     .dropout = config.dropout};
  spec.dropout = {.attention_output = config.dropout, .feed_forward = config.dropout};
  for (int64_t i = 0; i < config.num_layers; ++i) {
    spec.layer_prefixes.push_back(base_prefix + layers + std::to_string(i) + ".");
  }
  spec.order.resize(spec.layer_prefixes.size());
  std::iota(spec.order.begin(), spec.order.end(), size_t{0});
  return spec;
}

void AttentionVariant::add_to_layer(const std::string& /*prefix*/, ParameterStore& /*store*/) {}
void AttentionVariant::add_to_encoder(ParameterStore& /*store*/) {}

PostNormEncoder::PostNormEncoder(const EncoderConfig& config, const PostNormSpec& spec, ParameterStore& store,
                                 std::unique_ptr<AttentionVariant> variant)
    : config_(config),
      precision_(store.precision()),
      base_prefix_(spec.base_prefix),
      embeddings_(spec.embeddings, store),
      order_(spec.order),
      variant_(std::move(variant)) {
  if (!spec.projection.empty()) {
    const std::string name = base_prefix_ + spec.projection;
    projection_ = store.add_projection(name, {config.hidden_size, spec.embeddings.hidden_size});
    projection_bias_ = store.add(name + ".bias", {config.hidden_size});
  }
  layers_.reserve(spec.layer_prefixes.size());
  for (const std::string& prefix : spec.layer_prefixes) {
    layers_.emplace_back(config, spec.names, prefix, spec.dropout, store, [&] {
      if (variant_) variant_->add_to_layer(prefix, store);
    });
  }
  if (variant_) variant_->add_to_encoder(store);
}

at::Tensor PostNormEncoder::forward(const Batch& batch, const at::Tensor& tokens,
                                    const ForwardMode& mode) const {
  auto x = embeddings_.forward(batch, mode).to(precision_);  // [N, embedding width]
  if (projection_bias_.defined()) {
    x = kernels::add_bias(project(x, projection_, mode, batch.token_keys), projection_bias_);  // [N, H]
  }
  const Attention attention = variant_ ? variant_->for_pass(batch, mode) : plain_attention(config_, batch);
  for (size_t number = 0; number < order_.size(); ++number) {
    const bool last = number + 1 == order_.size();
    const auto forward = [&layer = layers_[order_[number]], batch, mode, number, attention,
                          kept = last ? tokens : at::Tensor()](const at::Tensor& input) {
      return layer.forward(input, batch, kept, mode, static_cast<int64_t>(number), attention);
    };
    x = mode.training && config_.activation_checkpointing ? recomputed(forward, x) : forward(x);
  }
  return x;
}

}  // namespace finetune
