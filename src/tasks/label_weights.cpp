#include <numeric>

#include "finetune/core/error.h"
#include "finetune/core/log.h"
#include "finetune/data/message.h"
#include "finetune/tasks/task.h"

namespace finetune {
namespace {

/// Training labels of each class.
std::vector<double> class_counts(const EncodedDataset& train, int64_t num_labels, int64_t ignore_index) {
  std::vector<double> counts(static_cast<size_t>(num_labels));
  for (const int64_t label : train.labels) {
    if (label != ignore_index) counts[static_cast<size_t>(label)] += 1;
  }
  return counts;
}

/// Training rows for which each class holds.
std::vector<double> positive_counts(const EncodedDataset& train, int64_t num_labels) {
  std::vector<double> counts(static_cast<size_t>(num_labels));
  for (size_t i = 0; i < train.values.size(); ++i)
    counts[i % counts.size()] += static_cast<double>(train.values[i]);
  return counts;
}

void warn_of_absent(const LabelMap& labels, const std::vector<double>& counts, const char* key,
                    const char* weight) {
  for (size_t id = 0; id < counts.size(); ++id) {
    if (counts[id] > 0) continue;
    spdlog::warn("task.{}: no training row has the label {}; its weight is {}", key,
                 shown(labels.name(static_cast<int64_t>(id))), weight);
  }
}

/// scikit-learn's "balanced".
std::vector<double> balanced_class_weights(const std::vector<double>& counts) {
  const double total = std::accumulate(counts.begin(), counts.end(), 0.0);
  std::vector<double> weights;
  for (const double count : counts)
    weights.push_back(count > 0 ? total / (static_cast<double>(counts.size()) * count) : 0.0);
  return weights;
}

std::vector<double> balanced_pos_weight(const std::vector<double>& counts, double num_rows) {
  std::vector<double> weights;
  for (const double count : counts) weights.push_back(count > 0 ? (num_rows - count) / count : 1.0);
  return weights;
}

/// A list in the order of the labels.
void resolve_names(LabelWeights& weights, const char* key, const LabelMap& labels) {
  if (weights.by_label.empty()) return;
  std::vector<double> values(static_cast<size_t>(labels.size()), 1.0);
  for (const auto& [label, weight] : weights.by_label) {
    const auto id = labels.id(label);
    if (!id) {
      throw ConfigError(std::string("task.") + key + ": found a weight for " + shown(label) +
                        ", which is none of the labels " + shown_list(labels.names()) +
                        suggestion(label, labels.names()) + "; correct the name, or remove it");
    }
    values[static_cast<size_t>(*id)] = weight;
  }
  weights = {.balanced = false, .values = std::move(values), .by_label = {}};
}

}  // namespace

TaskConfig with_resolved_weights(TaskConfig config, const LabelMap& labels, const EncodedDataset& train) {
  resolve_names(config.class_weights, "class_weights", labels);
  resolve_names(config.pos_weight, "pos_weight", labels);
  if (config.class_weights.balanced) {
    const auto counts = class_counts(train, labels.size(), config.ignore_index);
    warn_of_absent(labels, counts, "class_weights", "0");
    config.class_weights = {.balanced = false, .values = balanced_class_weights(counts), .by_label = {}};
  }
  if (config.pos_weight.balanced) {
    const auto counts = positive_counts(train, labels.size());
    warn_of_absent(labels, counts, "pos_weight", "1");
    config.pos_weight = {.balanced = false,
                         .values = balanced_pos_weight(counts, static_cast<double>(train.num_rows())),
                         .by_label = {}};
  }
  return config;
}

}  // namespace finetune
