#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "finetune/config/run_config.h"
#include "finetune/core/json.h"
#include "finetune/data/label_map.h"
#include "finetune/metrics/classification.h"
#include "finetune/model/head.h"

namespace finetune {

/// What a task decides: how labels weigh, the loss, the metrics, and how logits become an answer. The
/// registry of tasks, the only `switch` on the task type, is `src/tasks/task.cpp`.
class Task {
 public:
  virtual ~Task() = default;

  const LabelMap& labels() const { return labels_; }

  /// The head that the task needs on an encoder.
  virtual HeadConfig head() const = 0;

  /// What each row's label weighs in the loss: [R] from the host's labels. The divisor of an update's loss is
  /// their sum.
  virtual std::vector<double> label_weights(const std::vector<int64_t>& labels) const = 0;

  /// Sum of the weighted losses: [] float32 from logits [B, C], labels [B]. All labels ignored: 0, never NaN.
  virtual at::Tensor loss_sum(const at::Tensor& logits, const at::Tensor& labels) const = 0;

  virtual ClassificationMeter make_meter(c10::Device device) const = 0;

  /// One row's logits (host, `num_labels` values) as an answer: {"label", "score", "scores"}.
  virtual Json answer(const float* logits) const = 0;

 protected:
  explicit Task(LabelMap labels) : labels_(std::move(labels)) {}

  LabelMap labels_;
};

std::unique_ptr<Task> make_task(const TaskConfig& config, LabelMap labels);

/// The name a task type has in configs and model directories.
std::string task_name(TaskType type);

}  // namespace finetune
