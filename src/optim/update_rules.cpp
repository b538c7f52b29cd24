#include "finetune/optim/update_rules.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <regex>

#include "finetune/core/name_patterns.h"
#include "finetune/optim/optimizer.h"

namespace finetune {
namespace {

/// The number of the encoder layer that a parameter belongs to, in every family's spelling.
std::optional<int64_t> layer_number(const std::string& name) {
  static const std::regex pattern(R"((?:^|\.)(?:layer|layers|albert_layer_groups)\.(\d+)\.)");
  std::smatch match;
  if (!std::regex_search(name, match, pattern)) return std::nullopt;
  return std::stoll(match[1]);
}

}  // namespace

std::vector<int64_t> depths_of(const std::vector<std::string>& names) {
  int64_t num_layers = 0;
  for (const std::string& name : names)
    num_layers = std::max(num_layers, layer_number(name).value_or(-1) + 1);
  // The first parameter is the encoder's word embedding: "bert." is what the encoder's names begin with.
  const std::string encoder = names.front().substr(0, names.front().find('.') + 1);
  std::vector<int64_t> depths;
  for (const std::string& name : names) {
    const auto layer = layer_number(name);
    const bool above_layers = !name.starts_with(encoder) || name.find(".pooler.") != std::string::npos ||
                              name.find(".final_norm.") != std::string::npos;
    depths.push_back(layer ? num_layers - *layer : above_layers ? 0 : num_layers + 1);
  }
  return depths;
}

std::vector<UpdateRule> update_rules(const std::vector<std::string>& names, const OptimizerConfig& config) {
  std::vector<UpdateRule> rules;
  const std::vector<int64_t> depth = depths_of(names);
  for (size_t i = 0; i < names.size(); ++i) {
    rules.push_back({std::pow(config.layerwise_lr_decay, static_cast<double>(depth[i])),
                     matches_any(names[i], config.no_decay) ? 0.0 : config.weight_decay, depth[i]});
  }
  std::vector<bool> grouped(names.size());
  for (size_t number = 0; number < config.groups.size(); ++number) {
    const ParameterGroup& group = config.groups[number];
    const std::string key = "optimizer.groups[" + std::to_string(number) + "].patterns";
    for (const size_t i : matches_of(group.patterns, names, key)) {
      if (grouped[i]) continue;
      grouped[i] = true;
      if (group.learning_rate) rules[i].rate_factor = *group.learning_rate / config.learning_rate;
      if (group.weight_decay) rules[i].weight_decay = *group.weight_decay;
    }
  }
  return rules;
}

}  // namespace finetune
