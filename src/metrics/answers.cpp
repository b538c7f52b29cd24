#include "finetune/metrics/answers.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>

namespace finetune {
namespace {

constexpr int64_t kKept = 40;
constexpr int64_t kBins = 10;
constexpr double kNever = -1;  ///< the key of what is not to be kept; all others are 0 or more

/// The rows of [*, 6] with the largest keys.
at::Tensor largest(const at::Tensor& kept, const at::Tensor& added) {
  const at::Tensor all = kept.defined() ? at::cat({kept, added}) : added;
  const auto best = std::get<1>(all.select(1, 0).topk(std::min(kKept, all.size(0))));
  return all.index_select(0, best);
}

std::vector<Answer> to_answers(const at::Tensor& kept) {
  std::vector<Answer> answers;
  if (!kept.defined()) return answers;
  const at::Tensor host = kept.cpu().contiguous();
  const double* row = host.const_data_ptr<double>();
  for (int64_t i = 0; i < host.size(0); ++i, row += 6) {
    if (row[0] <= kNever) break;
    answers.push_back({static_cast<int64_t>(row[1]), row[2], row[3], row[4], row[5]});
  }
  return answers;
}

}  // namespace

AnswerMeter::AnswerMeter(LabelShape shape, int64_t ignore_index, double threshold, c10::Device device)
    : shape_(shape), ignore_index_(ignore_index), threshold_(threshold) {
  bins_ = at::zeros({3, kBins}, at::TensorOptions(at::kDouble).device(device));
}

AnswerMeter::Judged AnswerMeter::judge_classes(const at::Tensor& logits, const at::Tensor& labels) const {
  const auto log_shares = logits.to(at::kDouble).log_softmax(-1);
  const auto [best, predicted] = log_shares.max(-1);
  const auto known = labels.ne(ignore_index_);
  const auto gold = at::where(known, labels, 0);
  const auto error = log_shares.gather(-1, gold.unsqueeze(-1)).squeeze(-1).neg();
  const auto score = best.exp();
  const auto wrong = predicted.ne(gold);
  return {.gold = gold.to(at::kDouble),
          .predicted = predicted.to(at::kDouble),
          .score = score,
          .error = error,
          .wrong = wrong,
          .known = known,
          .probability = score,
          .outcome = wrong.logical_not()};
}

/// Of each row the class that is furthest off.
AnswerMeter::Judged AnswerMeter::judge_label_sets(const at::Tensor& logits, const at::Tensor& labels) const {
  const auto shares = logits.to(at::kDouble).sigmoid(), holds = labels.to(at::kDouble);
  const auto [error, which] = shares.sub(holds).abs().max(-1);
  const auto column = which.unsqueeze(-1);
  const auto gold = holds.gather(-1, column).squeeze(-1), score = shares.gather(-1, column).squeeze(-1);
  return {.gold = gold,
          .predicted = which.to(at::kDouble),
          .score = score,
          .error = error,
          .wrong = score.ge(threshold_).ne(gold.gt(0.5)),
          .known = error.eq(error),
          .probability = shares.flatten(),
          .outcome = holds.gt(0.5).flatten()};
}

AnswerMeter::Judged AnswerMeter::judge_values(const at::Tensor& logits, const at::Tensor& labels) const {
  const auto gold = labels.select(1, 0).to(at::kDouble), predicted = logits.select(1, 0).to(at::kDouble);
  const auto known = gold.eq(gold);
  return {.gold = gold,
          .predicted = predicted,
          .score = at::zeros_like(gold),
          .error = predicted.sub(gold).abs(),
          .wrong = at::zeros_like(known),
          .known = known,
          .probability = {},
          .outcome = {}};
}

void AnswerMeter::calibrate(const at::Tensor& probability, const at::Tensor& outcome,
                            const at::Tensor& known) {
  const auto weight = known.to(at::kDouble);
  const auto bin = probability.mul(static_cast<double>(kBins)).to(at::kLong).clamp(0, kBins - 1);
  bins_[0].scatter_add_(0, bin, weight);
  bins_[1].scatter_add_(0, bin, probability.mul(weight));
  bins_[2].scatter_add_(0, bin, outcome.to(at::kDouble).mul(weight));
}

void AnswerMeter::add(const at::Tensor& logits, const at::Tensor& labels) {
  const at::NoGradGuard no_grad;
  const int64_t count = labels.size(0);
  if (count == 0) return;
  const bool of_sets = shape_ == LabelShape::kClasses;
  const Judged judged = of_sets                        ? judge_label_sets(logits, labels)
                        : shape_ == LabelShape::kValue ? judge_values(logits, labels)
                                                       : judge_classes(logits, labels);
  const auto index = at::arange(num_labels_, num_labels_ + count, judged.error.options());
  num_labels_ += count;
  // A model that diverged answers NaN: nothing of it can be ranked.
  const auto known = judged.known.logical_and(judged.error.eq(judged.error));
  const auto rows_by = [&](const at::Tensor& key, const at::Tensor& counts) {
    return at::stack(
        {at::where(counts, key, kNever), index, judged.gold, judged.predicted, judged.score, judged.error},
        1);
  };
  worst_ = largest(worst_, rows_by(judged.error, known));
  if (!judged.probability.defined()) return;
  // How sure it was: of a class that may or may not hold, either way.
  const auto sure = of_sets ? at::max(judged.score, 1 - judged.score) : judged.score;
  confident_ = largest(confident_, rows_by(sure, known.logical_and(judged.wrong)));
  const auto counted = judged.probability.eq(judged.probability);
  calibrate(at::where(counted, judged.probability, 0.0), judged.outcome,
            of_sets ? counted : counted.logical_and(known));
}

AnswerSummary AnswerMeter::drain() const {
  AnswerSummary result{.worst = to_answers(worst_), .confident = to_answers(confident_), .calibration = {}};
  if (shape_ == LabelShape::kValue) return result;
  const at::Tensor host = bins_.cpu();
  const double* bin = host.const_data_ptr<double>();
  for (int64_t i = 0; i < kBins; ++i, ++bin) {
    const double count = std::max(*bin, 1.0);
    result.calibration.push_back({static_cast<int64_t>(*bin), bin[kBins] / count, bin[2 * kBins] / count});
  }
  return result;
}

}  // namespace finetune
