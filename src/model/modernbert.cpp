#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "biased_attention.h"
#include "embeddings.h"
#include "families.h"
#include "heads.h"
#include "recompute.h"
#include "rotary.h"
#include "token_selection.h"

/// ModernBERT (Warner et al. 2024), as `transformers.models.modernbert` builds it: pre-norm layers without
/// biases, rotary positions, gated feed-forward networks; most layers attend within a window.
namespace finetune {
namespace {

struct Settings {
  std::vector<bool> local;  ///< of each layer
  int64_t window;           ///< how far a local layer's tokens see in each direction
  double global_theta, local_theta;
  double mlp_dropout;
  bool attention_bias, mlp_bias, norm_bias;
  bool classifier_bias, mean_pooling;
  kernels::Activation classifier_activation;
};

std::vector<bool> read_layer_types(const ConfigReader& reader) {
  const auto num_layers = static_cast<size_t>(reader.positive("num_hidden_layers"));
  std::vector<bool> local(num_layers);
  const Json* const types = reader.find("layer_types");
  if (types == nullptr) {
    const int64_t every = std::max<int64_t>(reader.integer("global_attn_every_n_layers", 3), 1);
    for (size_t i = 0; i < num_layers; ++i) local[i] = static_cast<int64_t>(i) % every != 0;
    return local;
  }
  const auto is = [](const Json& type, const char* name) { return type.is_string() && type == name; };
  for (size_t i = 0; i < num_layers; ++i) {
    const Json type = types->is_array() && types->size() == num_layers ? types->at(i) : Json();
    local[i] = is(type, "sliding_attention");
    if (!local[i] && !is(type, "full_attention")) {
      refuse_setting("layer_types", types->dump(),
                     "expected a list of sliding_attention and full_attention, one for each of " +
                         std::to_string(num_layers) + " layers");
    }
  }
  return local;
}

/// The base of the rotary angles, from today's key, else from that of the first models.
double read_theta(const ConfigReader& reader, const char* layer_type, const char* first_key,
                  double fallback) {
  const double theta = reader.number(first_key, fallback);
  const Json* const all = reader.find("rope_parameters");
  if (all == nullptr || !all->is_object() || !all->contains(layer_type)) return theta;
  const ConfigReader own(all->at(layer_type));
  if (!own.json().is_object()) return theta;
  const std::string type = own.text("rope_type", "default");
  if (type != "default") refuse_setting("rope_type", "'" + type + "'", "expected 'default'");
  return own.number("rope_theta", theta);
}

Settings read_settings(const ConfigReader& reader) {
  if (const Json* const scaling = reader.find("rope_scaling")) {
    refuse_setting("rope_scaling", scaling->dump(), "expected none");
  }
  const std::string pooling = reader.text("classifier_pooling", "cls");
  if (pooling != "cls" && pooling != "mean") {
    refuse_setting("classifier_pooling", "'" + pooling + "'", "expected 'cls' or 'mean'");
  }
  return {.local = read_layer_types(reader),
          .window = reader.integer("local_attention", 128) / 2,
          .global_theta = read_theta(reader, "full_attention", "global_rope_theta", 160000.0),
          .local_theta = read_theta(reader, "sliding_attention", "local_rope_theta", 10000.0),
          .mlp_dropout = reader.number("mlp_dropout", 0.0),
          .attention_bias = reader.flag("attention_bias"),
          .mlp_bias = reader.flag("mlp_bias"),
          .norm_bias = reader.flag("norm_bias"),
          .classifier_bias = reader.flag("classifier_bias"),
          .mean_pooling = pooling == "mean",
          .classifier_activation = reader.activation("classifier_activation", "gelu")};
}

class Norm {
 public:
  Norm(const std::string& name, const EncoderConfig& config, const Settings& settings, ParameterStore& store)
      : eps_(config.layer_norm_eps),
        weight_(store.add(name + ".weight", {config.hidden_size})),
        bias_(store.add_bias(name + ".bias", config.hidden_size, settings.norm_bias)) {}

  at::Tensor forward(const at::Tensor& x) const { return kernels::layer_norm(x, weight_, bias_, eps_); }

 private:
  double eps_;
  at::Tensor weight_, bias_;
};

/// What all layers of a pass use.
struct Pass {
  Batch batch;
  ForwardMode mode;
  Rotary::Angles global, local;
  std::optional<PaddedRows> rows = {};  ///< where the local layers need them
  at::Tensor outside_window = {};       ///< [L, L] bool
};

class ModernBertLayer {
 public:
  ModernBertLayer(const EncoderConfig& config, const Settings& settings, int64_t index, ParameterStore& store)
      : index_(index),
        num_heads_(config.num_heads),
        intermediate_size_(config.intermediate_size),
        activation_(config.activation),
        attention_dropout_(config.attention_dropout),
        mlp_dropout_(settings.mlp_dropout),
        local_(settings.local[static_cast<size_t>(index)]),
        has_attention_bias_(settings.attention_bias),
        has_mlp_bias_(settings.mlp_bias) {
    const int64_t h = config.hidden_size, i = config.intermediate_size;
    const std::string p = "model.layers." + std::to_string(index) + ".";
    // The embeddings are normalised already.
    if (index > 0) attention_norm_.emplace(p + "attn_norm", config, settings, store);
    qkv_ = store.add_projection(p + "attn.Wqkv", {3 * h, h});
    qkv_bias_ = store.add_bias(p + "attn.Wqkv.bias", 3 * h, has_attention_bias_);
    attention_output_ = store.add_projection(p + "attn.Wo", {h, h});
    attention_bias_ = store.add_bias(p + "attn.Wo.bias", h, has_attention_bias_);
    mlp_norm_.emplace(p + "mlp_norm", config, settings, store);
    gated_ = store.add_projection(p + "mlp.Wi", {2 * i, h});
    gated_bias_ = store.add_bias(p + "mlp.Wi.bias", 2 * i, has_mlp_bias_);
    output_ = store.add_projection(p + "mlp.Wo", {h, i});
    output_bias_ = store.add_bias(p + "mlp.Wo.bias", h, has_mlp_bias_);
    no_bias_ = store.add_bias({}, std::max(3 * h, i), /*exists=*/false);
  }

  /// [N, H] -> [R, H], the states of `tokens` [R], or of all where it is undefined; float32: what runs past
  /// the layers keeps its precision.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& tokens, const Pass& pass,
                     at::ScalarType precision) const {
    const auto input = (attention_norm_ ? attention_norm_->forward(x) : x).to(precision);
    // Tokens meet in attention only: what follows leaves out those that nobody reads.
    const auto context = select_tokens(attend(input, pass), tokens);
    const auto keys = pass.mode.training ? select_tokens(pass.batch.token_keys, tokens) : at::Tensor();
    const auto attended =
        select_tokens(x, tokens) + attention_output(context, keys, pass.mode).to(at::kFloat);
    return attended +
           feed_forward(mlp_norm_->forward(attended).to(precision), keys, pass.mode).to(at::kFloat);
  }

 private:
  /// The dropout sites of a layer; the embeddings' is 0, layer l's begin at 1 + l * kNumSites.
  enum Site : int64_t { kAttentionProbabilities, kAttentionOutput, kIntermediate, kNumSites };

  kernels::Dropout drop(double probability, Site site, const at::Tensor& token_keys,
                        const ForwardMode& mode) const {
    return mode.dropout(probability, 1 + index_ * kNumSites + site, token_keys);
  }

  at::Tensor attend(const at::Tensor& x, const Pass& pass) const {
    auto qkv = project(x, qkv_, pass.mode, pass.batch.token_keys);  // [N, 3H]
    if (has_attention_bias_) qkv = kernels::add_bias(qkv, qkv_bias_);
    qkv = rotate_queries_and_keys(qkv, local_ ? pass.local : pass.global, num_heads_);
    const int64_t h = qkv.size(1) / 3;
    const double scale = 1.0 / std::sqrt(static_cast<double>(h / num_heads_));
    const auto dropout = drop(attention_dropout_, kAttentionProbabilities, pass.batch.token_keys, pass.mode);
    return local_ && pass.rows
               ? biased_attention(qkv, *pass.rows, num_heads_, scale, {.mask = pass.outside_window}, dropout)
               : kernels::packed_attention(qkv, no_bias_.narrow(0, 0, 3 * h), pass.batch.cu_seqlens,
                                           pass.batch.max_length, num_heads_, scale, dropout);
  }

  at::Tensor attention_output(const at::Tensor& context, const at::Tensor& token_keys,
                              const ForwardMode& mode) const {
    auto output = project(context, attention_output_, mode, token_keys);
    if (has_attention_bias_) output = kernels::add_bias(output, attention_bias_);
    return kernels::dropout(output, drop(attention_dropout_, kAttentionOutput, token_keys, mode));
  }

  at::Tensor feed_forward(const at::Tensor& x, const at::Tensor& token_keys, const ForwardMode& mode) const {
    const int64_t i = intermediate_size_;
    auto both = project(x, gated_, mode, token_keys);  // [N, 2I]
    if (has_mlp_bias_) both = kernels::add_bias(both, gated_bias_);
    const auto active =
        kernels::bias_activation(both.narrow(1, 0, i).contiguous(), no_bias_.narrow(0, 0, i), activation_);
    const auto gated = kernels::dropout(active * both.narrow(1, i, i),
                                        drop(mlp_dropout_, kIntermediate, token_keys, mode));  // [N, I]
    const auto output = project(gated, output_, mode, token_keys);
    return has_mlp_bias_ ? kernels::add_bias(output, output_bias_) : output;
  }

  int64_t index_, num_heads_, intermediate_size_;
  kernels::Activation activation_;
  double attention_dropout_, mlp_dropout_;
  bool local_, has_attention_bias_, has_mlp_bias_;
  std::optional<Norm> attention_norm_, mlp_norm_;
  Projection qkv_, attention_output_, gated_, output_;
  at::Tensor qkv_bias_, attention_bias_, gated_bias_, output_bias_;
  at::Tensor no_bias_;  ///< zeros, for operators that add one
};

class ModernBert final : public Encoder {
 public:
  ModernBert(const EncoderConfig& config, const Settings& settings, ParameterStore& store)
      : activation_checkpointing_(config.activation_checkpointing),
        attention_dropout_(config.attention_dropout),
        window_(settings.window),
        precision_(store.precision()),
        embeddings_({.prefix = "model.embeddings.",
                     .word = "tok_embeddings.weight",
                     .norm = "norm",
                     .vocab_size = config.vocab_size,
                     .width = config.hidden_size,
                     .hidden_size = config.hidden_size,
                     .norm_bias = settings.norm_bias,
                     .norm_eps = config.layer_norm_eps,
                     .dropout = config.dropout},
                    store),
        global_(config.hidden_size / config.num_heads, settings.global_theta, store.device()),
        local_(config.hidden_size / config.num_heads, settings.local_theta, store.device()) {
    for (int64_t i = 0; i < config.num_layers; ++i) layers_.emplace_back(config, settings, i, store);
    final_norm_.emplace("model.final_norm", config, settings, store);
  }

  at::Tensor forward(const Batch& batch, const at::Tensor& tokens, const ForwardMode& mode) const override {
    Pass pass{.batch = batch,
              .mode = mode,
              .global = global_.angles(batch.position_ids),
              .local = local_.angles(batch.position_ids)};
    // The fused kernel numbers its draws otherwise: which rows go together must not decide who draws.
    const bool draws = mode.training && attention_dropout_ > 0.0;
    if (draws || batch.max_length - 1 > window_) {
      pass.rows.emplace(batch);
      const auto positions = at::arange(batch.max_length, batch.token_keys.options());
      pass.outside_window = (positions.unsqueeze(1) - positions.unsqueeze(0)).abs().gt(window_);
    }
    auto x = embeddings_.forward(batch, mode);  // [N, H]
    for (const ModernBertLayer& layer : layers_) {
      const auto forward =
          [&layer, pass, precision = precision_, kept = &layer == &layers_.back() ? tokens : at::Tensor()](
              const at::Tensor& input) { return layer.forward(input, kept, pass, precision); };
      x = mode.training && activation_checkpointing_ ? recomputed(forward, x) : forward(x);
    }
    return final_norm_->forward(x).to(precision_);
  }

  std::string base_prefix() const override { return "model."; }

 private:
  bool activation_checkpointing_;
  double attention_dropout_;
  int64_t window_;
  at::ScalarType precision_;
  Embeddings embeddings_;
  Rotary global_, local_;
  std::vector<ModernBertLayer> layers_;
  std::optional<Norm> final_norm_;
};

/// A dense layer with an activation and a norm, dropout, a linear layer: over one state of each row, or over
/// the batch's positions.
class ModernBertHead final : public Head {
 public:
  ModernBertHead(const EncoderConfig& config, HeadKind kind, int64_t num_outputs, ParameterStore& store)
      : ModernBertHead(config, read_settings(ConfigReader(config.source)), kind, num_outputs, store) {}

  at::Tensor tokens_read(const Batch& batch) const override {
    if (kind_ == HeadKind::kToken) return batch.positions;
    return mean_pooling_ ? at::Tensor() : first_tokens(batch);
  }

  at::Tensor forward(const at::Tensor& hidden_states, const Batch& batch,
                     const ForwardMode& mode) const override {
    const HeadInput input = kind_ == HeadKind::kSequence && mean_pooling_
                                ? mean_of_rows(hidden_states, batch, mode)
                                : head_input(hidden_states, tokens_read(batch), batch, mode);  // [R, H]
    const auto dense =
        kernels::bias_activation(kernels::linear(input.states, dense_weight_), dense_bias_, activation_);
    const auto dropped =
        kernels::dropout(norm_.forward(dense), mode.dropout(dropout_, kClassifierSite, input.token_keys));
    return kernels::add_bias(kernels::linear(dropped, weight_), bias_);  // [R, num_outputs]
  }

 private:
  ModernBertHead(const EncoderConfig& config, const Settings& settings, HeadKind kind, int64_t num_outputs,
                 ParameterStore& store)
      : kind_(kind),
        mean_pooling_(settings.mean_pooling),
        activation_(settings.classifier_activation),
        dropout_(config.classifier_dropout),
        dense_weight_(store.add("head.dense.weight", {config.hidden_size, config.hidden_size})),
        dense_bias_(store.add_bias("head.dense.bias", config.hidden_size, settings.classifier_bias)),
        norm_("head.norm", config, settings, store),
        weight_(store.add("classifier.weight", {num_outputs, config.hidden_size})),
        bias_(store.add("classifier.bias", {num_outputs})) {}

  static HeadInput mean_of_rows(const at::Tensor& hidden_states, const Batch& batch,
                                const ForwardMode& mode) {
    const PaddedRows rows(batch);
    const auto exists = rows.beyond_end().logical_not().view({batch.num_rows, rows.length(), 1});
    const auto sums = (rows.pad(hidden_states.to(at::kFloat)) * exists).sum(1);
    return head_input(sums / exists.sum(1).clamp_min(1), first_tokens(batch), batch, mode);
  }

  HeadKind kind_;
  bool mean_pooling_;
  kernels::Activation activation_;
  double dropout_;
  at::Tensor dense_weight_, dense_bias_;
  Norm norm_;
  at::Tensor weight_, bias_;
};

EncoderConfig read_modernbert_config(const ConfigReader& reader, const ModelConfig& overrides) {
  EncoderConfig config = read_common_config(reader, overrides,
                                            {.activation = "hidden_activation",
                                             .layer_norm_eps = "norm_eps",
                                             .dropout = "embedding_dropout",
                                             .attention_dropout = "attention_dropout",
                                             .default_layer_norm_eps = 1e-5,
                                             .default_dropout = 0.0,
                                             .default_classifier_dropout = 0.0,
                                             .default_pad_token_id = 50283});
  if (overrides.dropout) config.source["mlp_dropout"] = *overrides.dropout;
  read_settings(reader);
  if (const int64_t head_size = config.hidden_size / config.num_heads; head_size % 2 != 0) {
    throw CheckpointError("config.json: hidden_size / num_attention_heads is " + std::to_string(head_size) +
                          ", expected an even number: rotary positions turn features in pairs");
  }
  return config;
}

std::unique_ptr<Encoder> make_modernbert(const EncoderConfig& config, ParameterStore& store) {
  return std::make_unique<ModernBert>(config, read_settings(ConfigReader(config.source)), store);
}

template <HeadKind kind>
std::unique_ptr<Head> make_modernbert_head(const EncoderConfig& config, int64_t num_outputs,
                                           ParameterStore& store) {
  return std::make_unique<ModernBertHead>(config, kind, num_outputs, store);
}

}  // namespace

const Family kModernBert{"modernbert",
                         "ModernBert",
                         read_modernbert_config,
                         make_modernbert,
                         make_modernbert_head<HeadKind::kSequence>,
                         make_modernbert_head<HeadKind::kToken>};

}  // namespace finetune
