#pragma once

#include <functional>
#include <string>

#include "finetune/batching/batch.h"
#include "finetune/model/encoder_config.h"
#include "finetune/model/forward_mode.h"
#include "finetune/model/parameter.h"

namespace finetune {

/// Where a family keeps the parameters of a layer: names of linear layers and norms after the layer's prefix.
struct LayerNames {
  const char* query = "attention.self.query";
  const char* key = "attention.self.key";
  const char* value = "attention.self.value";
  const char* attention_output = "attention.output.dense";
  const char* attention_norm = "attention.output.LayerNorm";
  const char* intermediate = "intermediate.dense";
  const char* output = "output.dense";
  const char* output_norm = "output.LayerNorm";
  bool output_norm_first = false;  ///< it is the first of the layer in the family's order
};

/// Dropout of what is added to the residual.
struct LayerDropout {
  double attention_output = 0.0;
  double feed_forward = 0.0;
};

class PostNormLayer;

/// Attention of layer `number` of a pass: context [N, H] from queries, keys and values [N, 3H], to which
/// `layer.qkv_bias()` has not been added yet.
using Attention = std::function<at::Tensor(const PostNormLayer& layer, int64_t number, const at::Tensor& qkv,
                                           const kernels::Dropout& dropout)>;

/// An encoder layer as the original Transformer has it (Vaswani et al. 2017): attention and feed-forward
/// network, each added to its input and then normalised.
class PostNormLayer {
 public:
  /// `after_qkv` creates what a family has between the projections and the attention's output.
  PostNormLayer(const EncoderConfig& config, const LayerNames& names, const std::string& prefix,
                const LayerDropout& dropout, ParameterStore& store, const std::function<void()>& after_qkv);

  /// [N, H] -> [R, H], the states of `tokens` [R], or of all where it is undefined. number: of the layer in
  /// the pass, which its dropout depends on.
  at::Tensor forward(const at::Tensor& x, const Batch& batch, const at::Tensor& tokens,
                     const ForwardMode& mode, int64_t number, const Attention& attention) const;

  const Projection& qkv() const { return qkv_; }
  const at::Tensor& qkv_bias() const { return qkv_bias_; }

 private:
  void add_output_norm(const std::string& name, ParameterStore& store);

  int64_t hidden_size_;
  kernels::Activation activation_;
  double norm_eps_, attention_dropout_;
  LayerDropout dropout_;
  Projection qkv_, attention_output_, intermediate_, output_;
  at::Tensor qkv_bias_, attention_bias_, attention_norm_weight_, attention_norm_bias_;
  at::Tensor intermediate_bias_, output_bias_, output_norm_weight_, output_norm_bias_;
};

/// Attention within each row, without any bias.
Attention plain_attention(const EncoderConfig& config, const Batch& batch);

}  // namespace finetune
