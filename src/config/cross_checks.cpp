#include "cross_checks.h"

#include <algorithm>

#include "finetune/core/json.h"
#include "finetune/core/text.h"
#include "metric_names.h"

namespace finetune::config {
namespace {

bool same_column(const ColumnName& a, const ColumnName& b) { return a == b; }

std::string column_text(const ColumnName& column) {
  return column.index ? std::to_string(*column.index) : "\"" + column.name + "\"";
}

void check_columns(const DataConfig& data, std::vector<Conflict>& conflicts) {
  if (same_column(data.text, data.label)) {
    conflicts.push_back(
        {{"/data/label", "/data/text"},
         "column " + column_text(data.text) + " is both data.text and data.label; name two columns"});
  }
  if (data.text_pair && same_column(data.text, *data.text_pair)) {
    conflicts.push_back(
        {{"/data/text_pair", "/data/text"},
         "column " + column_text(data.text) + " is both data.text and data.text_pair; name two columns"});
  }
  if (data.text_pair && same_column(data.label, *data.text_pair)) {
    conflicts.push_back(
        {{"/data/text_pair", "/data/label"},
         "column " + column_text(data.label) + " is both data.label and data.text_pair; name two columns"});
  }
}

void check_header(const DataConfig& data, std::vector<Conflict>& conflicts) {
  if (data.header != HeaderMode::kAbsent || data.format == DataFormat::kJsonl ||
      data.format == DataFormat::kFolder || data.format == DataFormat::kConll)
    return;
  const auto needs_number = [&](const char* pointer, const ColumnName& column) {
    if (column.index) return;
    conflicts.push_back({{pointer, "/data/header"},
                         "found the name " + column_text(column) + " for data." +
                             (pointer + sizeof("/data/") - 1) +
                             " where data.header is false; expected the number of a column, from 0"});
  };
  needs_number("/data/text", data.text);
  if (data.text_pair) needs_number("/data/text_pair", *data.text_pair);
  needs_number("/data/label", data.label);
}

/// Keys that mean something for some tasks only.
void check_task(const RunConfig& config, std::vector<Conflict>& conflicts) {
  const TaskConfig& task = config.task;
  const TaskConfig defaults;
  const bool one_class =
      task.type == TaskType::kSequenceClassification || task.type == TaskType::kTokenClassification;
  const bool several = task.type == TaskType::kMultiLabelClassification;
  const auto needs = [&](bool given, bool fits, const char* pointer, const char* tasks) {
    if (!given || fits) return;
    conflicts.push_back(
        {{pointer, "/task/type"},
         "means something for " + std::string(tasks) + " only; unset it, or change task.type"});
  };
  constexpr const char* kOneClass = "sequence_classification and token_classification";
  needs(task.label_smoothing > 0, one_class, "/task/label_smoothing", kOneClass);
  needs(task.loss == LossType::kFocal, one_class, "/task/loss", kOneClass);
  needs(!task.class_weights.empty(), one_class, "/task/class_weights", kOneClass);
  needs(!task.pos_weight.empty(), several, "/task/pos_weight", "multi_label_classification");
  needs(task.threshold != defaults.threshold, several, "/task/threshold", "multi_label_classification");
  const bool classes = one_class || several;
  const bool hides = task.type == TaskType::kMaskedLm;
  needs(!task.labels.empty(), classes, "/task/labels", "tasks with classes");
  needs(task.mask_fraction != defaults.mask_fraction, hides, "/task/mask_fraction", "masked_lm");
  needs(config.data.format == DataFormat::kText, hides, "/data/format",
        "masked_lm, whose texts have no labels,");
  if (task.loss == LossType::kFocal && task.label_smoothing > 0) {
    conflicts.push_back({{"/task/label_smoothing", "/task/loss"},
                         "the focal loss has no smoothed form here; unset one of the two"});
  }
  const auto fits_labels = [&](const LabelWeights& weights, const char* pointer) {
    if (task.labels.empty()) return;
    if (!weights.values.empty() && weights.values.size() != task.labels.size()) {
      conflicts.push_back({{pointer, "/task/labels"},
                           "found " + std::to_string(weights.values.size()) + " weights for the " +
                               std::to_string(task.labels.size()) + " task.labels; expected one for each"});
    }
    for (const auto& [label, weight] : weights.by_label) {
      if (std::find(task.labels.begin(), task.labels.end(), label) != task.labels.end()) continue;
      const auto near = nearest_name(label, task.labels);
      conflicts.push_back({{pointer, "/task/labels"},
                           "found a weight for \"" + label + "\", which is none of task.labels" +
                               (near ? " (did you mean \"" + *near + "\"?)" : std::string()) +
                               "; correct the name, or remove it"});
    }
  };
  fits_labels(task.class_weights, "/task/class_weights");
  fits_labels(task.pos_weight, "/task/pos_weight");
  const auto& metrics = metric_names(task.type);
  if (std::find(metrics.begin(), metrics.end(), config.checkpoint.metric) == metrics.end()) {
    conflicts.push_back({{"/checkpoint/metric", "/task/type"},
                         "found \"" + config.checkpoint.metric +
                             "\", which this task.type does not measure; expected " +
                             join_some(metrics, metrics.size())});
  }
}

void check_items(const RunConfig& config, std::vector<Conflict>& conflicts) {
  const DataConfig& data = config.data;
  const auto refuse = [&](bool wrong, std::vector<std::string> pointers, const char* message) {
    if (wrong) conflicts.push_back({std::move(pointers), message});
  };
  const bool given = data.tokens || data.fields || data.positions;
  const char* first = data.fields ? "/data/fields" : data.positions ? "/data/positions" : "/data/tokens";
  refuse(given && config.task.type != TaskType::kTokenClassification, {first, "/task/type"},
         "rows with a label for each item are for token_classification only; set task.type, or unset it");
  refuse((data.tokens && (data.fields || data.positions)) || (data.fields && data.positions),
         {first, "/data/tokens", "/data/positions"},
         "words (data.tokens), data.fields and data.positions exclude each other; keep one");
  refuse(given && data.text_pair.has_value(), {"/data/text_pair", first},
         "rows with a label for each item have one text; unset data.text_pair");
  refuse(given && (data.format == DataFormat::kCsv || data.format == DataFormat::kTsv ||
                   data.format == DataFormat::kFolder),
         {"/data/format", first},
         "lists of items come from jsonl files, or from conll for words; change data.format");
  refuse(
      data.format == DataFormat::kConll && !data.tokens, {"/data/format", "/task/type"},
      "conll files hold words with tags; set task.type to \"token_classification\" without data.fields and "
      "data.positions");
  refuse(data.format == DataFormat::kFolder &&
             (data.label_shape == LabelShape::kClasses || data.label_shape == LabelShape::kValue),
         {"/data/format", "/task/type"}, "a folder a class gives a row one class; use csv, tsv or jsonl");
}

void check_stride(const DataConfig& data, std::vector<Conflict>& conflicts) {
  if (!data.stride) return;
  const std::string found = "found " + std::to_string(*data.stride);
  if (data.label_shape == LabelShape::kItems) {
    conflicts.push_back({{"/data/stride", "/task/type"},
                         found +
                             " where words, fields or positions are labelled, which have no windows; unset "
                             "data.stride, and raise data.max_length"});
  } else if (data.truncation == Truncation::kNone) {
    conflicts.push_back({{"/data/stride", "/data/truncation"},
                         found + " beside truncation none, which refuses long texts; unset one of the two"});
  } else if (data.text_pair && data.truncation == Truncation::kLongestFirst) {
    conflicts.push_back(
        {{"/data/stride", "/data/truncation"},
         found + " for pairs, of which one text stays whole in each window; set data.truncation to "
                 "\"only_first\" or \"only_second\", the one that is cut into windows"});
  } else if (*data.stride >= data.max_length) {
    conflicts.push_back({{"/data/stride", "/data/max_length"},
                         found + ", expected fewer than the data.max_length " +
                             std::to_string(data.max_length) + " of a window"});
  }
}

void check_data(const DataConfig& data, std::vector<Conflict>& conflicts) {
  if (!data.tokens) check_columns(data, conflicts);
  check_header(data, conflicts);
  if (data.truncation == Truncation::kOnlySecond && !data.text_pair) {
    conflicts.push_back(
        {{"/data/truncation", "/data/text_pair"},
         "found only_second where rows have one text; set data.text_pair, or use longest_first"});
  }
  check_stride(data, conflicts);
  if (data.validation_fraction > 0 && !data.validation.empty()) {
    conflicts.push_back(
        {{"/data/validation_fraction", "/data/validation"},
         "found " + Json(data.validation_fraction).dump() +
             " beside data.validation; rows for validation come from one of the two, unset the other"});
  }
  if (data.format == DataFormat::kFolder && data.text_pair) {
    conflicts.push_back(
        {{"/data/text_pair", "/data/format"},
         "a folder's files hold one text each; unset data.text_pair, or use csv, tsv or jsonl"});
  }
  if (data.delimiter && (data.format == DataFormat::kFolder || data.format == DataFormat::kJsonl ||
                         data.format == DataFormat::kConll)) {
    conflicts.push_back({{"/data/delimiter", "/data/format"},
                         "only csv and tsv have a delimiter; unset data.delimiter, or change data.format"});
  }
}

void check_recipes(const RunConfig& config, std::vector<Conflict>& conflicts) {
  const bool has_own_rate =
      std::any_of(config.optimizer.groups.begin(), config.optimizer.groups.end(),
                  [](const ParameterGroup& group) { return group.learning_rate.has_value(); });
  if (has_own_rate && config.optimizer.learning_rate == 0) {
    conflicts.push_back(
        {{"/optimizer/groups", "/optimizer/learning_rate"},
         "found a learning rate of a group beside optimizer.learning_rate = 0, of which it would be "
         "a multiple; set optimizer.learning_rate, and model.freeze for what must not learn"});
  }
  const LabelShape shape = config.data.label_shape;
  if (config.model.pooling != Pooling::kPooler &&
      (shape == LabelShape::kItems || shape == LabelShape::kNone)) {
    conflicts.push_back(
        {{"/model/pooling", "/task/type"},
         "found a task that reads single tokens, of which nothing is pooled; unset model.pooling"});
  }
  if (!config.train.early_stopping) return;
  if (config.data.validation.empty() && config.data.validation_fraction == 0) {
    conflicts.push_back({{"/train/early_stopping", "/data/validation"},
                         "found early stopping without rows to evaluate; set data.validation or "
                         "data.validation_fraction"});
  }
  if (config.train.eval_every.never()) {
    conflicts.push_back({{"/train/early_stopping", "/train/eval_every"},
                         "found early stopping without evaluations on the way; set train.eval_every"});
  }
}

}  // namespace

std::vector<Conflict> find_conflicts(const RunConfig& config) {
  std::vector<Conflict> conflicts;
  check_task(config, conflicts);
  check_items(config, conflicts);
  check_data(config.data, conflicts);
  check_recipes(config, conflicts);
  const auto& max_steps = config.train.max_steps;
  if (max_steps && config.schedule.warmup >= 1 && config.schedule.warmup > static_cast<double>(*max_steps)) {
    conflicts.push_back({{"/schedule/warmup", "/train/max_steps"},
                         "found a warm-up of " +
                             std::to_string(static_cast<int64_t>(config.schedule.warmup)) +
                             " steps in a run of train.max_steps = " + std::to_string(*max_steps) +
                             "; expected fewer steps, or a fraction below 1"});
  }
  if (config.optimizer.amsgrad && config.optimizer.type == OptimizerType::kSgd) {
    conflicts.push_back({{"/optimizer/amsgrad", "/optimizer/type"},
                         "sgd keeps no second moment; unset optimizer.amsgrad, or use adamw or adam"});
  }
  return conflicts;
}

}  // namespace finetune::config
