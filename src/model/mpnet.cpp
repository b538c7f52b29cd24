#include <ATen/ATen.h>

#include <cmath>

#include "biased_attention.h"
#include "families.h"
#include "heads.h"
#include "post_norm_encoder.h"

/// MPNet (Song et al. 2020), as `transformers.models.mpnet` builds it: RoBERTa's positions without token
/// types, and in every layer the same bias of the scores by distance.
namespace finetune {
namespace {

constexpr LayerNames kNames{.query = "attention.attn.q",
                            .key = "attention.attn.k",
                            .value = "attention.attn.v",
                            .attention_output = "attention.attn.o",
                            .attention_norm = "attention.LayerNorm",
                            .intermediate = "intermediate.dense",
                            .output = "output.dense",
                            .output_norm = "output.LayerNorm"};

/// transformers has these three in the code, whatever config.json says.
constexpr int64_t kPaddingId = 1;
constexpr int64_t kNumBuckets = 32;
constexpr double kMaxDistance = 128;

/// [L, L] int64: the bucket of each query's distance to each key; half of them for each direction, short
/// distances one each, long ones by their logarithm (Raffel et al. 2020, section 2.1).
at::Tensor distance_buckets(int64_t length, const at::TensorOptions& options) {
  constexpr int64_t kHalf = kNumBuckets / 2, kExact = kHalf / 2;
  const auto positions = at::arange(length, options.dtype(at::kLong));
  const auto distance = positions.unsqueeze(1) - positions.unsqueeze(0);  // query - key
  const auto size = distance.abs();
  const double log_range = std::log(kMaxDistance / static_cast<double>(kExact));
  // Of no distance comes the logarithm of 0, which is not used and must not be converted.
  const auto large =
      ((size.clamp_min(1).to(at::kFloat) / kExact).log() / log_range * (kHalf - kExact)).to(at::kLong) +
      kExact;
  const auto bucket = at::where(size.lt(kExact), size, large.clamp_max(kHalf - 1));
  return distance.lt(0).to(at::kLong) * kHalf + bucket;
}

class DistanceBias final : public AttentionVariant {
 public:
  explicit DistanceBias(const EncoderConfig& config)
      : num_heads_(config.num_heads),
        scale_(1.0 / std::sqrt(static_cast<double>(config.hidden_size / config.num_heads))) {}

  void add_to_encoder(ParameterStore& store) override {
    table_ = store.add("mpnet.encoder.relative_attention_bias.weight", {kNumBuckets, num_heads_});
  }

  Attention for_pass(const Batch& batch, const ForwardMode& /*mode*/) const override {
    const int64_t l = batch.max_length;
    // Looked up in each layer, so that a layer which is computed anew has a graph of its own.
    const ScoreTerms terms{.bias = [table = table_, l, heads = num_heads_,
                                    buckets = distance_buckets(l, table_.options()).flatten()](
                                       const at::Tensor&, const at::Tensor&) {
      return at::embedding(table, buckets).view({l, l, heads}).permute({2, 0, 1}).unsqueeze(0);
    }};
    return [=, rows = PaddedRows(batch), num_heads = num_heads_, scale = scale_](
               const PostNormLayer& layer, int64_t, const at::Tensor& qkv, const kernels::Dropout& dropout) {
      return biased_attention(kernels::add_bias(qkv, layer.qkv_bias()), rows, num_heads, scale, terms,
                              dropout);
    };
  }

 private:
  int64_t num_heads_;
  double scale_;
  at::Tensor table_;  ///< [buckets, heads]
};

EncoderConfig read_mpnet_config(const ConfigReader& reader, const ModelConfig& overrides) {
  // transformers' heads of MPNet know no dropout of their own.
  EncoderConfig config = read_common_config(
      reader, overrides, {.classifier_dropout = "hidden_dropout_prob", .default_pad_token_id = kPaddingId});
  if (!overrides.classifier_dropout) {
    config.classifier_dropout = config.token_classifier_dropout = config.dropout;
  }
  config.max_positions -= kPaddingId + 1;
  if (config.max_positions < 1) {
    refuse_setting("max_position_embeddings", std::to_string(config.max_positions + kPaddingId + 1),
                   "expected 3 or more: positions begin at 2");
  }
  const int64_t buckets = reader.integer("relative_attention_num_buckets", kNumBuckets);
  if (buckets != kNumBuckets) {
    refuse_setting("relative_attention_num_buckets", std::to_string(buckets),
                   "expected 32, which transformers' MPNet computes with whatever this says");
  }
  return config;
}

std::unique_ptr<Encoder> make_mpnet(const EncoderConfig& config, ParameterStore& store) {
  PostNormSpec spec = bert_like_spec(config, "mpnet.");
  spec.names = kNames;
  spec.embeddings.num_positions = config.max_positions + kPaddingId + 1;
  spec.embeddings.padding_id = kPaddingId;
  return std::make_unique<PostNormEncoder>(config, spec, store, std::make_unique<DistanceBias>(config));
}

std::unique_ptr<Head> make_mpnet_sequence_head(const EncoderConfig& config, int64_t num_outputs,
                                               ParameterStore& store) {
  return make_dense_head({.dense = "classifier.dense",
                          .output = "classifier.out_proj",
                          .activation = kernels::Activation::kTanh,
                          .input_dropout = config.classifier_dropout,
                          .dropout = config.classifier_dropout},
                         config.hidden_size, num_outputs, store);
}

std::unique_ptr<Head> make_mpnet_masked_lm_head(const EncoderConfig& config, int64_t, ParameterStore& store) {
  return make_masked_lm_head({.dense = "lm_head.dense",
                              .norm = "lm_head.layer_norm",
                              .bias = "lm_head.bias",
                              .words = "mpnet.embeddings.word_embeddings.weight",
                              .activation = kernels::Activation::kGelu},
                             config, store);
}

}  // namespace

const Family kMpnet{"mpnet",
                    "MPNet",
                    read_mpnet_config,
                    make_mpnet,
                    make_mpnet_sequence_head,
                    make_token_head,
                    make_mpnet_masked_lm_head};

}  // namespace finetune
