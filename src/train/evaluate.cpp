#include "finetune/train/evaluate.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "finetune/core/signals.h"
#include "finetune/device/transfer.h"

namespace finetune {
namespace {

/// Tokens of an evaluation batch: enough to keep the products large, little enough to stay in the caches of a
/// CPU.
constexpr int64_t kEvaluationTokens = 4096;
constexpr int64_t kEvaluationRows = 1024;

/// [D + 1] window counts of texts as offsets into logits [R, C] -> [D, C], the mean of each text's windows.
at::Tensor mean_of_windows(const at::Tensor& logits, const at::Tensor& offsets) {
  const auto sums = at::segment_reduce(logits, "sum", /*lengths=*/{}, /*indices=*/{}, offsets, /*axis=*/0,
                                       /*unsafe=*/true, /*initial=*/0.0);
  return sums / offsets.diff().to(at::kFloat).unsqueeze(1);
}

/// Texts that are answered together: their windows may be cut into batches anywhere.
struct TextGroup {
  int64_t first_text = 0, num_texts = 0;
  size_t end_plan = 0;
};

Answered answer_of(const TextGroup& group, const DeviceDataset& dataset,
                   const std::vector<at::Tensor>& logits) {
  const auto offsets = dataset.text_offsets.narrow(0, group.first_text, group.num_texts + 1);
  Answered answered{.first_text = group.first_text, .num_texts = group.num_texts, .logits = {}, .labels = {}};
  const int64_t first_row = dataset.host_text_offsets[static_cast<size_t>(group.first_text)];
  answered.logits = mean_of_windows(at::cat(logits), offsets - first_row);
  if (dataset.labels.defined()) {
    answered.labels = dataset.labels.index_select(0, offsets.narrow(0, 0, group.num_texts));
  }
  return answered;
}

/// The seed and the step that the hiding of an evaluation is counted by: no update's.
at::Tensor evaluation_rng(c10::Device device) { return upload(std::vector<int64_t>{0, -1}, device); }

}  // namespace

void for_each_batch(const Classifier& model, const Task& task, const DeviceDataset& dataset,
                    const AnswerSink& sink) {
  const at::NoGradGuard no_grad;
  std::vector<int64_t> order(static_cast<size_t>(dataset.num_rows()));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::vector<BatchPlan> plans;
  std::vector<TextGroup> groups;
  const int64_t texts_of_group = dataset.has_windows() ? kEvaluationRows : std::max<int64_t>(order.size(), 1);
  for (int64_t first = 0; first < dataset.num_texts(); first += texts_of_group) {
    const int64_t count = std::min(texts_of_group, dataset.num_texts() - first);
    const auto row_of = [&](int64_t text) {
      return dataset.has_windows() ? dataset.host_text_offsets[static_cast<size_t>(text)] : text;
    };
    const auto part = plan_batches(dataset.lengths, order, row_of(first), row_of(first + count),
                                   kEvaluationRows, kEvaluationTokens);
    plans.insert(plans.end(), part.begin(), part.end());
    groups.push_back({.first_text = first, .num_texts = count, .end_plan = plans.size()});
  }
  if (groups.empty()) return;
  const BatchSource source(dataset, order, plans);
  const at::Tensor rng = evaluation_rng(dataset.device());
  std::vector<at::Tensor> of_windows;
  auto group = groups.begin();
  for (int64_t i = 0; i < source.size(); ++i) {
    throw_if_stop_requested();
    const Batch batch = task.shown(source.batch(i), rng);
    at::Tensor logits = model.forward(batch, ForwardMode{});
    if (!dataset.has_windows()) {
      sink({.first_text = source.plan(i).begin,
            .num_texts = batch.num_rows,
            .logits = logits,
            .labels = batch.labels});
      continue;
    }
    of_windows.push_back(std::move(logits));
    if (static_cast<size_t>(i) + 1 < group->end_plan) continue;
    sink(answer_of(*group++, dataset, of_windows));
    of_windows.clear();
  }
}

TextMeter::TextMeter(const Task& task, const DeviceDataset& dataset, Meter& meter)
    : task_(task), meter_(meter), weights_(task.label_weights(dataset)) {
  if (dataset.has_windows()) {
    std::vector<double> of_texts;
    for (int64_t text = 0; text < dataset.num_texts(); ++text) {
      const int64_t first_row = dataset.host_text_offsets[static_cast<size_t>(text)];
      of_texts.push_back(weights_[static_cast<size_t>(first_row)]);
    }
    weights_ = std::move(of_texts);
  }
  meter.begin(dataset);
}

void TextMeter::add(const Answered& answered) {
  const auto first = weights_.begin() + answered.first_text;
  const double weight = std::accumulate(first, first + answered.num_texts, 0.0);
  meter_.add(task_.loss_sum(answered.logits, answered.labels), answered.logits, answered.labels, weight);
}

Json evaluate(const Classifier& model, const DeviceDataset& dataset, const Task& task,
              const AnswerSink& also) {
  const auto meter = task.make_meter(dataset.device());
  TextMeter text_meter(task, dataset, *meter);
  for_each_batch(model, task, dataset, [&](const Answered& answered) {
    text_meter.add(answered);
    if (also) also(answered);
  });
  return meter->drain();
}

}  // namespace finetune
