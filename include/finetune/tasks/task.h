#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "finetune/batching/batch.h"
#include "finetune/config/run_config.h"
#include "finetune/core/json.h"
#include "finetune/data/label_map.h"
#include "finetune/data/row_reader.h"
#include "finetune/metrics/meter.h"
#include "finetune/model/head.h"
#include "finetune/tokenizer/tokenizer.h"

namespace finetune {

/// What a model says of one row, on the host.
struct RowLogits {
  const float* values = nullptr;  ///< [L, C]: of the row, or of its items that have a token, in their order
  bool of_items = false;          ///< else of the row
  /// The token of each of the row's items, -1: none.
  std::span<const int32_t> item_positions = {};
};

/// What a task decides: how labels weigh, the loss, the metrics, and how logits become an answer. A row has
/// one label, or one for each of its items; all here is the same for both. The registry of tasks, the only
/// `switch` on the task type, is `src/tasks/task.cpp`.
class Task {
 public:
  virtual ~Task() = default;

  const LabelMap& labels() const { return labels_; }
  /// As the task was made, its weights in the order of the labels.
  const TaskConfig& config() const { return config_; }

  /// The head that the task needs on an encoder.
  virtual HeadConfig head() const = 0;
  /// What `problem_type` in a Hugging Face config.json says; empty: nothing.
  virtual std::string problem_type() const { return ""; }

  /// Of a split that was encoded: what in its rows is predicted for, where the data does not say so.
  virtual void choose_targets(EncodedDataset& dataset) const { static_cast<void>(dataset); }

  /// What a model is shown of a batch, and asked: the batch itself, unless the task hides parts of it. rng
  /// [2] int64 on the device: seed and step, which the hiding is counted by. Does not wait for the device.
  virtual Batch shown(Batch batch, const at::Tensor& rng) const {
    static_cast<void>(rng);
    return batch;
  }

  /// What each row's labels weigh in the loss together: [R]. The divisor of an update's loss is the sum over
  /// its rows.
  virtual std::vector<double> label_weights(const DeviceDataset& rows) const = 0;

  /// Sum of the weighted losses: [] float32 from logits [L, C] and labels [L] or [L, C]. All labels ignored:
  /// 0, never NaN.
  virtual at::Tensor loss_sum(const at::Tensor& logits, const at::Tensor& labels) const = 0;

  virtual std::unique_ptr<Meter> make_meter(c10::Device device) const = 0;

  /// One row's answer, as `predict` prints it.
  virtual Json answer(const Row& row, const RowLogits& logits) const = 0;

 protected:
  Task(const TaskConfig& config, LabelMap labels) : config_(config), labels_(std::move(labels)) {}

  TaskConfig config_;
  LabelMap labels_;
};

/// tokenizer: what a task of tokens needs; may be null for the others. Throws `ConfigError` where there are
/// weights, but not one for each label.
std::unique_ptr<Task> make_task(const TaskConfig& config, LabelMap labels, const DataConfig& data = {},
                                const Tokenizer* tokenizer = nullptr);

/// The labels that rows of the task have in any case: regression's one output. Else none, and they are
/// learned.
std::vector<std::string> fixed_labels(TaskType type);

/// `config` with its class weights and pos_weight as lists in the order of `labels`: "balanced" ones from the
/// training rows. A class that does not occur weighs 0 (pos_weight: 1), with a warning. Throws `ConfigError`
/// for a list of another length and a name that is no label.
TaskConfig with_resolved_weights(TaskConfig config, const LabelMap& labels, const EncodedDataset& train);

/// The name a task type has in configs and model directories.
std::string task_name(TaskType type);
/// Its opposite; nothing for another name.
std::optional<TaskType> task_type(const std::string& name);

}  // namespace finetune
