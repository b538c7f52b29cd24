#include "finetune/train/evaluate.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <numeric>

#include "finetune/core/signals.h"

namespace finetune {
namespace {

/// Tokens of an evaluation batch: enough to keep the products large, little enough to stay in the caches of a
/// CPU.
constexpr int64_t kEvaluationTokens = 4096;
constexpr int64_t kEvaluationRows = 1024;

}  // namespace

void for_each_batch(const Classifier& model, const DeviceDataset& dataset, const LogitsSink& sink) {
  const at::NoGradGuard no_grad;
  std::vector<int64_t> order(static_cast<size_t>(dataset.num_rows()));
  std::iota(order.begin(), order.end(), int64_t{0});
  const BatchSource source(
      dataset, order,
      plan_batches(dataset.lengths, order, 0, dataset.num_rows(), kEvaluationRows, kEvaluationTokens));
  for (int64_t i = 0; i < source.size(); ++i) {
    throw_if_stop_requested();
    const Batch batch = source.batch(i);
    sink(source.plan(i).begin, batch, model.forward(batch, ForwardMode{}));
  }
}

RowMeter::RowMeter(const Task& task, const DeviceDataset& rows, Meter& meter)
    : task_(task), meter_(meter), weights_(task.label_weights(rows)) {
  meter.begin(rows);
}

void RowMeter::add(int64_t first_row, const Batch& batch, const at::Tensor& logits) {
  const auto first = weights_.begin() + first_row;
  const double weight = std::accumulate(first, first + batch.num_rows, 0.0);
  meter_.add(task_.loss_sum(logits, batch.labels), logits, batch.labels, weight);
}

Json evaluate(const Classifier& model, const DeviceDataset& dataset, const Task& task,
              const LogitsSink& also) {
  const auto meter = task.make_meter(dataset.device());
  RowMeter row_meter(task, dataset, *meter);
  for_each_batch(model, dataset, [&](int64_t first_row, const Batch& batch, const at::Tensor& logits) {
    row_meter.add(first_row, batch, logits);
    if (also) also(first_row, batch, logits);
  });
  return meter->drain();
}

}  // namespace finetune
