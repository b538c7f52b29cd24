#pragma once

#include <functional>

#include "finetune/batching/dataset.h"
#include "finetune/core/json.h"
#include "finetune/model/classifier.h"
#include "finetune/tasks/task.h"

namespace finetune {

/// What the model says of consecutive texts. The tensors are on the device.
struct Answered {
  int64_t first_text = 0;
  int64_t num_texts = 0;
  at::Tensor logits;  ///< float32 [D, C], of a text in windows the mean of theirs; or [P, C] of positions
  at::Tensor labels;  ///< as the task has them, or undefined
};
using AnswerSink = std::function<void(const Answered&)>;

/// Runs the model over all texts in file order, without gradients and without dropout; weights and generators
/// stay as they are. What a task hides is the same each time. Throws `Interrupted` when a stop is asked for
/// in between.
void for_each_batch(const Classifier& model, const Task& task, const DeviceDataset& dataset,
                    const AnswerSink& sink);

/// Measures labelled texts as they are answered, in their order.
class TextMeter {
 public:
  /// All must outlive it.
  TextMeter(const Task& task, const DeviceDataset& dataset, Meter& meter);
  void add(const Answered& answered);

 private:
  const Task& task_;
  Meter& meter_;
  std::vector<double> weights_;  ///< [D] of each text's labels
};

/// The task's metrics over a labelled dataset. Reads the device once, at the end. also: is given all answers
/// too.
Json evaluate(const Classifier& model, const DeviceDataset& dataset, const Task& task,
              const AnswerSink& also = {});

}  // namespace finetune
