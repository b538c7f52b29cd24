#include <ATen/ATen.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "biased_attention.h"
#include "families.h"
#include "heads.h"
#include "post_norm_encoder.h"

/// DeBERTa-v2 and v3 (He et al. 2021, "DeBERTa: Decoding-enhanced BERT with Disentangled Attention"), as
/// `transformers.models.deberta_v2` builds them: scores are the sum of content to content, content to
/// position and position to content.
namespace finetune {
namespace {

constexpr LayerNames kNames{.query = "attention.self.query_proj",
                            .key = "attention.self.key_proj",
                            .value = "attention.self.value_proj"};

/// The dropout site of the relative positions in layer 0: above the layers' own, below the heads'.
constexpr int64_t kRelativePositionSite = 30000;
/// Of the keys of relative positions: a row that no update has.
constexpr int64_t kPositionRow = int64_t{0x7fffffff} << 32;

struct Settings {
  int64_t embedding_size;
  int64_t position_buckets;  ///< 0: a position for each distance
  int64_t max_relative_positions;
  bool absolute_positions;
  bool share_key;  ///< positions are projected by the layer's own matrices
  bool content_to_position, position_to_content;
  bool norm_positions;
  double pooler_dropout;
  kernels::Activation pooler_activation;

  /// Half the rows of the table of relative positions.
  int64_t span() const { return position_buckets > 0 ? position_buckets : max_relative_positions; }
  /// How many terms a score is the sum of.
  int64_t num_terms() const { return 1 + (content_to_position ? 1 : 0) + (position_to_content ? 1 : 0); }
};

/// Words of a text like "p2c|c2p", or of a list of them.
std::vector<std::string> words_of(const ConfigReader& reader, const std::string& key) {
  const Json* const found = reader.find(key);
  if (found != nullptr && found->is_array()) {
    std::vector<std::string> words;
    for (const Json& word : *found) words.push_back(word.is_string() ? word.get<std::string>() : word.dump());
    return words;
  }
  std::vector<std::string> words{""};
  for (const char c : reader.text(key, "")) {
    if (c == '|') {
      words.emplace_back();
    } else if (c != ' ') {
      words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

bool contains(const std::vector<std::string>& words, const char* word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

void refuse_unsupported(const ConfigReader& reader, const EncoderConfig& config) {
  if (!reader.flag("relative_attention")) {
    refuse_setting("relative_attention", "false",
                   "expected true, as all published DeBERTa-v2 and v3 models have it");
  }
  if (const int64_t size = reader.integer("conv_kernel_size", 0); size > 0) {
    refuse_setting("conv_kernel_size", std::to_string(size),
                   "expected 0 or none: choose a model without a convolution, such as DeBERTa-v3");
  }
  const int64_t head_size = config.hidden_size / config.num_heads;
  for (const auto& [key, expected] :
       {std::pair("attention_head_size", head_size), std::pair("pooler_hidden_size", config.hidden_size)}) {
    if (const int64_t found = reader.integer(key, expected); found != expected) {
      refuse_setting(key, std::to_string(found), "expected " + std::to_string(expected));
    }
  }
  for (const std::string& word : words_of(reader, "pos_att_type")) {
    if (word != "c2p" && word != "p2c")
      refuse_setting("pos_att_type", "'" + word + "'", "expected c2p and p2c");
  }
}

Settings read_settings(const ConfigReader& reader) {
  const std::vector<std::string> terms = words_of(reader, "pos_att_type");
  Settings settings{.embedding_size = reader.find("embedding_size") == nullptr
                                          ? reader.positive("hidden_size")
                                          : reader.positive("embedding_size"),
                    .position_buckets = std::max<int64_t>(reader.integer("position_buckets", 0), 0),
                    .max_relative_positions = reader.integer("max_relative_positions", -1),
                    .absolute_positions = reader.flag("position_biased_input", true),
                    .share_key = reader.flag("share_att_key"),
                    .content_to_position = contains(terms, "c2p"),
                    .position_to_content = contains(terms, "p2c"),
                    .norm_positions = contains(words_of(reader, "norm_rel_ebd"), "layer_norm"),
                    .pooler_dropout = reader.number("pooler_dropout", 0.0),
                    .pooler_activation = reader.activation("pooler_hidden_act", "gelu")};
  if (settings.max_relative_positions < 1) {
    settings.max_relative_positions = reader.positive("max_position_embeddings");
  }
  return settings;
}

/// [L, L] int64: the distance of each query from each key, long ones by their logarithm where there are
/// buckets. In float32, and operation by operation, as the reference rounds.
at::Tensor relative_positions(const Settings& settings, int64_t length, const at::TensorOptions& options) {
  const auto positions = at::arange(length, options.dtype(at::kLong));
  const auto distance = positions.unsqueeze(1) - positions.unsqueeze(0);
  if (settings.position_buckets == 0) return distance;
  const int64_t middle = settings.position_buckets / 2;
  const auto is_near = distance.lt(middle).logical_and(distance.gt(-middle));
  const auto size = distance.abs().masked_fill(is_near, middle - 1);
  const double ratio = static_cast<double>(settings.max_relative_positions - 1) / static_cast<double>(middle);
  const auto log_range = at::full({}, ratio, options.dtype(at::kFloat)).log();
  const auto far = ((size / middle).log() / log_range * (middle - 1)).ceil() + middle;
  return at::where(size.le(middle), distance.to(at::kFloat), far * distance.sign()).to(at::kLong);
}

/// Which rows of the table of relative positions a pass needs, and which of them each pair of tokens takes.
struct PositionIndex {
  int64_t begin, count;
  at::Tensor content_to_position = {};  ///< [query, key] int64, from `begin`
  at::Tensor position_to_content = {};  ///< [key, query] int64, from `begin`
};

PositionIndex position_index(const Settings& settings, int64_t length, const at::TensorOptions& options) {
  const int64_t span = settings.span();
  // Up to the middle a distance is its own bucket; then all buckets are taken.
  const bool exact = settings.position_buckets == 0 || length - 1 <= settings.position_buckets / 2;
  const int64_t reach = exact ? std::min(length - 1, span) : span;
  PositionIndex index{.begin = span - reach, .count = std::min(2 * reach + 1, span + reach)};
  const auto relative = relative_positions(settings, length, options);
  index.content_to_position = (relative + span).clamp(0, 2 * span - 1) - index.begin;
  index.position_to_content = (span - relative).clamp(0, 2 * span - 1) - index.begin;
  return index;
}

class DisentangledAttention final : public AttentionVariant {
 public:
  explicit DisentangledAttention(const EncoderConfig& config)
      : settings_(read_settings(ConfigReader(config.source))),
        hidden_size_(config.hidden_size),
        num_heads_(config.num_heads),
        norm_eps_(config.layer_norm_eps),
        dropout_(config.dropout),
        scale_(1.0 / std::sqrt(static_cast<double>(hidden_size_ / num_heads_ * settings_.num_terms()))) {}

  void add_to_layer(const std::string& prefix, ParameterStore& store) override {
    PositionLayers& layers = position_layers_.emplace_back();
    if (settings_.share_key) return;
    const auto add = [&](const char* name) {
      const std::string full = prefix + "attention.self." + name;
      return std::pair(store.add_projection(full, {hidden_size_, hidden_size_}),
                       store.add(full + ".bias", {hidden_size_}));
    };
    if (settings_.content_to_position) std::tie(layers.key, layers.key_bias) = add("pos_key_proj");
    if (settings_.position_to_content) {
      std::tie(layers.query, layers.query_bias) = add("pos_query_proj");
    }
  }

  void add_to_encoder(ParameterStore& store) override {
    precision_ = store.precision();
    table_ = store.add("deberta.encoder.rel_embeddings.weight", {2 * settings_.span(), hidden_size_});
    if (!settings_.norm_positions) return;
    norm_weight_ = store.add("deberta.encoder.LayerNorm.weight", {hidden_size_});
    norm_bias_ = store.add("deberta.encoder.LayerNorm.bias", {hidden_size_});
  }

  Attention for_pass(const Batch& batch, const ForwardMode& mode) const override {
    return [this, mode, rows = PaddedRows(batch),
            index = position_index(settings_, batch.max_length, table_.options())](
               const PostNormLayer& layer, int64_t number, const at::Tensor& qkv,
               const kernels::Dropout& dropout) {
      // Computed in each layer, so that a layer which is computed anew has a graph of its own.
      const Positions positions = positions_of(layer, number, index, mode);
      const ScoreTerms terms{.bias = [&](const at::Tensor& query, const at::Tensor& key) {
        return position_scores(query, key, positions, index);
      }};
      return biased_attention(kernels::add_bias(qkv, layer.qkv_bias()), rows, num_heads_, scale_, terms,
                              dropout);
    };
  }

 private:
  /// A layer's own matrices for positions; without them where it shares those of the content.
  struct PositionLayers {
    Projection key, query;
    at::Tensor key_bias, query_bias;
  };

  /// Relative positions as keys and as queries: [heads, D, positions], either undefined where it is not used.
  struct Positions {
    at::Tensor key, query;
  };

  at::Tensor heads_of(const at::Tensor& x) const {  // [positions, H] -> [heads, D, positions]
    return x.view({x.size(0), num_heads_, hidden_size_ / num_heads_}).permute({1, 2, 0});
  }

  Positions positions_of(const PostNormLayer& layer, int64_t number, const PositionIndex& index,
                         const ForwardMode& mode) const {
    auto x = table_.narrow(0, index.begin, index.count);  // [positions, H]
    if (settings_.norm_positions) x = kernels::layer_norm(x, norm_weight_, norm_bias_, norm_eps_);
    at::Tensor keys;
    if (mode.training) {
      keys = at::arange(index.begin, index.begin + index.count, x.options().dtype(at::kLong));
      x = kernels::dropout(x, mode.dropout(dropout_, kRelativePositionSite + number, keys));
      keys = keys + kPositionRow;  // an adapter of the content's layers draws others than for any token
    }
    x = x.to(precision_);
    Positions positions;
    if (settings_.share_key) {
      const auto qkv = kernels::add_bias(project(x, layer.qkv(), mode, keys), layer.qkv_bias());
      if (settings_.content_to_position) positions.key = heads_of(qkv.narrow(1, hidden_size_, hidden_size_));
      if (settings_.position_to_content) positions.query = heads_of(qkv.narrow(1, 0, hidden_size_));
      return positions;
    }
    const PositionLayers& own = position_layers_[static_cast<size_t>(number)];
    if (settings_.content_to_position) {
      positions.key = heads_of(kernels::add_bias(project(x, own.key, mode, keys), own.key_bias));
    }
    if (settings_.position_to_content) {
      positions.query = heads_of(kernels::add_bias(project(x, own.query, mode, keys), own.query_bias));
    }
    return positions;
  }

  at::Tensor position_scores(const at::Tensor& query, const at::Tensor& key, const Positions& positions,
                             const PositionIndex& index) const {
    const auto pick = [&](const at::Tensor& scores, const at::Tensor& which) {
      return scores.gather(-1, which.expand({scores.size(0), scores.size(1), -1, -1})).to(at::kFloat);
    };
    auto sum = at::zeros({}, table_.options());
    if (positions.key.defined()) {
      sum = sum + pick(at::matmul(query, positions.key), index.content_to_position);
    }
    if (positions.query.defined()) {
      sum =
          sum + pick(at::matmul(key, positions.query * scale_), index.position_to_content).transpose(-1, -2);
    }
    return sum;
  }

  Settings settings_;
  int64_t hidden_size_, num_heads_;
  double norm_eps_, dropout_, scale_;
  at::ScalarType precision_ = at::kFloat;
  std::vector<PositionLayers> position_layers_;
  at::Tensor table_;  ///< [2 * span, H]
  at::Tensor norm_weight_, norm_bias_;
};

EncoderConfig read_deberta_config(const ConfigReader& reader, const ModelConfig& overrides) {
  EncoderConfig config = read_common_config(
      reader, overrides, {.classifier_dropout = "cls_dropout", .default_layer_norm_eps = 1e-7});
  config.token_classifier_dropout = overrides.classifier_dropout.value_or(config.dropout);
  config.num_token_types = reader.integer("type_vocab_size", 0);
  refuse_unsupported(reader, config);
  read_settings(reader);
  return config;
}

std::unique_ptr<Encoder> make_deberta(const EncoderConfig& config, ParameterStore& store) {
  const Settings settings = read_settings(ConfigReader(config.source));
  PostNormSpec spec = bert_like_spec(config, "deberta.");
  spec.names = kNames;
  spec.embeddings.width = settings.embedding_size;
  if (settings.embedding_size != config.hidden_size) spec.embeddings.projection = "embed_proj";
  if (!settings.absolute_positions) spec.embeddings.num_positions = 0;
  return std::make_unique<PostNormEncoder>(config, spec, store,
                                           std::make_unique<DisentangledAttention>(config));
}

std::unique_ptr<Head> make_deberta_sequence_head(const EncoderConfig& config, int64_t num_outputs,
                                                 ParameterStore& store) {
  const Settings settings = read_settings(ConfigReader(config.source));
  return make_dense_head({.dense = "pooler.dense",
                          .activation = settings.pooler_activation,
                          .input_dropout = settings.pooler_dropout,
                          .dropout = config.classifier_dropout},
                         config.hidden_size, num_outputs, store);
}

}  // namespace

const Family kDebertaV2{
    "deberta-v2",   "DebertaV2", read_deberta_config, make_deberta, make_deberta_sequence_head,
    make_token_head};

}  // namespace finetune
