#include "finetune/model/classifier.h"

#include <algorithm>

#include "finetune/core/error.h"
#include "finetune/core/name_patterns.h"

namespace finetune {

Classifier::Classifier(const EncoderConfig& config, const HeadConfig& head, c10::Device device,
                       at::ScalarType precision, const ModelConfig& recipe)
    : config_(config),
      store_(device, precision, recipe.lora),
      encoder_(make_encoder(config_, store_)),
      head_(make_head(config_, head, store_)) {
  freeze_parameters(recipe);
}

at::Tensor Classifier::forward(const Batch& batch, const ForwardMode& mode) const {
  return head_->forward(encoder_->forward(batch, head_->tokens_read(batch), mode), batch, mode);
}

int64_t Classifier::num_tokens_read(const Batch& batch) const {
  const at::Tensor tokens = head_->tokens_read(batch);
  return tokens.defined() ? tokens.size(0) : batch.num_tokens;
}

bool Classifier::is_of_head(const std::string& parameter_name) const {
  const std::string base = base_prefix();
  return !parameter_name.starts_with(base) || parameter_name.starts_with(base + "pooler.");
}

void Classifier::freeze_parameters(const ModelConfig& recipe) {
  std::vector<std::string> names, frozen;
  for (const Parameter& parameter : store_.parameters()) names.push_back(parameter.name);
  for (const size_t index : matches_of(recipe.freeze, names, "model.freeze")) frozen.push_back(names[index]);
  if (recipe.lora) {
    matches_of(recipe.lora->targets, store_.linear_layers(), "model.lora.targets");
    for (const std::string& name : names) {
      if (!is_of_head(name) && !is_adapter(name)) frozen.push_back(name);
    }
    std::sort(frozen.begin(), frozen.end());
    frozen.erase(std::unique(frozen.begin(), frozen.end()), frozen.end());
  }
  if (frozen.size() == names.size()) {
    throw ConfigError("model.freeze: its patterns match all " + std::to_string(names.size()) +
                      " parameters, so nothing would learn; leave out the head, which begins untrained (" +
                      names.back() + ")");
  }
  store_.freeze(frozen);
}

void Classifier::initialize_parameters(uint64_t seed) {
  for (Parameter parameter : store_.parameters()) {
    initialize(parameter, config_.initializer_range, seed, config_.pad_token_id);
  }
}

void Classifier::initialize_parameters(uint64_t seed, const std::vector<std::string>& names) {
  for (Parameter parameter : store_.parameters()) {
    if (std::find(names.begin(), names.end(), parameter.name) == names.end()) continue;
    initialize(parameter, config_.initializer_range, seed, config_.pad_token_id);
  }
}

}  // namespace finetune
