#include "finetune/model/classifier.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace finetune {
namespace {

/// The classifier's dropout site: far above what any encoder's layers use.
constexpr int64_t kClassifierSite = 60000;

}  // namespace

SequenceClassifier::SequenceClassifier(const EncoderConfig& config, int64_t num_labels, c10::Device device,
                                       at::ScalarType precision)
    : config_(config), store_(device, precision), encoder_(make_encoder(config_, store_)) {
  weight_ = store_.add("classifier.weight", {num_labels, config.hidden_size});
  bias_ = store_.add("classifier.bias", {num_labels});
}

at::Tensor SequenceClassifier::forward(const Batch& batch, const ForwardMode& mode) const {
  const auto hidden_states = encoder_->forward(batch, mode);  // [N, H]
  const auto pooled = encoder_->pool(hidden_states, batch);   // [B, H]
  const auto first_tokens = batch.cu_seqlens.narrow(0, 0, batch.num_rows);
  const auto keys = mode.training ? batch.token_keys.index_select(0, first_tokens) : at::Tensor();
  const auto dropped =
      kernels::dropout(pooled, mode.dropout(config_.classifier_dropout, kClassifierSite, keys));
  return kernels::add_bias(kernels::linear(dropped, weight_), bias_);  // [B, num_labels]
}

void SequenceClassifier::initialize_parameters(uint64_t seed) {
  for (Parameter parameter : store_.parameters()) {
    initialize(parameter, config_.initializer_range, seed, config_.pad_token_id);
  }
}

void SequenceClassifier::initialize_parameters(uint64_t seed, const std::vector<std::string>& names) {
  for (Parameter parameter : store_.parameters()) {
    if (std::find(names.begin(), names.end(), parameter.name) == names.end()) continue;
    initialize(parameter, config_.initializer_range, seed, config_.pad_token_id);
  }
}

}  // namespace finetune
