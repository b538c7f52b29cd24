#pragma once

#include <memory>
#include <string>
#include <vector>

#include "embeddings.h"
#include "finetune/model/encoder.h"
#include "post_norm_layer.h"

namespace finetune {

/// Embeddings and post-norm layers, under a family's names.
struct PostNormSpec {
  std::string base_prefix;
  EmbeddingSpec embeddings;
  std::string projection = {};  ///< a linear layer with bias from the embeddings' width; empty: none
  LayerNames names = {};
  LayerDropout dropout = {};
  std::vector<std::string> layer_prefixes;  ///< of the layers that have parameters of their own
  std::vector<size_t> order;                ///< which of them x goes through, one after the other
};

/// The spec of a family with BERT's embeddings and layers (`prefix`encoder.layer.0., ...).
PostNormSpec bert_like_spec(const EncoderConfig& config, const std::string& base_prefix,
                            const std::string& layers = "encoder.layer.");

/// What a family does in place of plain attention. It may have parameters of its own.
class AttentionVariant {
 public:
  virtual ~AttentionVariant() = default;

  /// Creates what a layer has after the projections of queries, keys and values.
  virtual void add_to_layer(const std::string& prefix, ParameterStore& store);
  /// Creates what comes after all layers.
  virtual void add_to_encoder(ParameterStore& store);

  /// How the layers of a pass attend. The result is called until the backward pass is over.
  virtual Attention for_pass(const Batch& batch, const ForwardMode& mode) const = 0;
};

/// What most families are: embeddings, perhaps a projection, post-norm layers.
class PostNormEncoder final : public Encoder {
 public:
  /// `variant`: null for plain attention.
  PostNormEncoder(const EncoderConfig& config, const PostNormSpec& spec, ParameterStore& store,
                  std::unique_ptr<AttentionVariant> variant = nullptr);

  at::Tensor forward(const Batch& batch, const at::Tensor& tokens, const ForwardMode& mode) const override;
  std::string base_prefix() const override { return base_prefix_; }

 private:
  EncoderConfig config_;
  at::ScalarType precision_;
  std::string base_prefix_;
  Embeddings embeddings_;
  Projection projection_;
  at::Tensor projection_bias_;
  std::vector<PostNormLayer> layers_;
  std::vector<size_t> order_;
  std::unique_ptr<AttentionVariant> variant_;
};

}  // namespace finetune
