#include "cross_checks.h"

#include "finetune/core/json.h"

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
      data.format == DataFormat::kFolder)
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

void check_data(const DataConfig& data, std::vector<Conflict>& conflicts) {
  check_columns(data, conflicts);
  check_header(data, conflicts);
  if (data.truncation == Truncation::kOnlySecond && !data.text_pair) {
    conflicts.push_back(
        {{"/data/truncation", "/data/text_pair"},
         "found only_second where rows have one text; set data.text_pair, or use longest_first"});
  }
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
  if (data.delimiter && (data.format == DataFormat::kFolder || data.format == DataFormat::kJsonl)) {
    conflicts.push_back({{"/data/delimiter", "/data/format"},
                         "only csv and tsv have a delimiter; unset data.delimiter, or change data.format"});
  }
}

}  // namespace

std::vector<Conflict> find_conflicts(const RunConfig& config) {
  std::vector<Conflict> conflicts;
  check_data(config.data, conflicts);
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
