#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "finetune/config/run_config.h"
#include "finetune/model/classifier.h"
#include "finetune/tasks/task.h"
#include "finetune/tokenizer/tokenizer.h"

namespace finetune {

/// A model taken from a Hugging Face directory, ready to evaluate and predict.
struct TrainedModel {
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<Task> task;
  std::unique_ptr<Classifier> model;
  DataConfig data;  ///< the columns, length and truncation the model was trained with
};

/// Loads weights, tokenizer, labels and the data settings kept in `finetune.json`; a directory without that
/// file gets its labels from config.json's `id2label`, and the defaults. The classifier's weights must be
/// there.
TrainedModel load_trained_model(const std::filesystem::path& directory, c10::Device device);

/// Replaces `directory` by a Hugging Face directory of the model.
/// source_config: the config.json it was made from; metrics: what the model card reports.
void save_trained_model(const std::filesystem::path& directory, const Json& source_config,
                        const std::vector<Parameter>& parameters, const Tokenizer& tokenizer,
                        const Task& task, const RunConfig& config, const Json& metrics);

/// How rows are encoded under `data`, for a model with `max_positions` positions; says so where it has to
/// clamp.
RowOptions encode_options(const DataConfig& data, int64_t max_positions);

}  // namespace finetune
