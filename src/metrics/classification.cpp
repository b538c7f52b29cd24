#include "finetune/metrics/classification.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>

namespace finetune {
namespace {

double ratio(double numerator, double denominator) {
  return denominator == 0 ? 0.0 : numerator / denominator;
}

}  // namespace

ClassificationMeter::ClassificationMeter(int64_t num_labels, int64_t ignore_index, c10::Device device)
    : num_labels_(num_labels), ignore_index_(ignore_index) {
  loss_ = at::zeros({1}, at::TensorOptions(at::kDouble).device(device));
  confusion_ = at::zeros({num_labels * num_labels + 1}, at::TensorOptions(at::kLong).device(device));
}

void ClassificationMeter::add(const at::Tensor& loss_sum, const at::Tensor& logits, const at::Tensor& labels,
                              double label_weight) {
  const at::NoGradGuard no_grad;
  label_weight_ += label_weight;
  loss_.add_(loss_sum);
  const auto cells =
      at::where(labels == ignore_index_, num_labels_ * num_labels_, labels * num_labels_ + logits.argmax(-1));
  confusion_.scatter_add_(0, cells, at::ones_like(cells));
}

Json ClassificationMeter::drain() {
  const auto counts = confusion_.cpu();
  const double loss = loss_.cpu().item<double>();
  const auto* cell = counts.const_data_ptr<int64_t>();
  std::vector<std::vector<int64_t>> confusion(static_cast<size_t>(num_labels_));
  for (auto& row : confusion) {
    row.assign(cell, cell + num_labels_);
    cell += num_labels_;
  }
  Json result{{"loss", label_weight_ > 0 ? loss / label_weight_ : 0.0}};
  result.update(classification_metrics(confusion));
  result["confusion"] = confusion;
  return result;
}

Json classification_metrics(const std::vector<std::vector<int64_t>>& confusion) {
  const size_t num_labels = confusion.size();
  std::vector<double> gold(num_labels), predicted(num_labels);
  double total = 0, correct = 0;
  for (size_t i = 0; i < num_labels; ++i) {
    for (size_t j = 0; j < num_labels; ++j) {
      const auto count = static_cast<double>(confusion[i][j]);
      gold[i] += count;
      predicted[j] += count;
      total += count;
      if (i == j) correct += count;
    }
  }
  double f1_sum = 0, num_present = 0, products = 0, gold_squares = 0, predicted_squares = 0;
  for (size_t i = 0; i < num_labels; ++i) {
    const auto hits = static_cast<double>(confusion[i][i]);
    if (gold[i] + predicted[i] > 0) {
      f1_sum += ratio(2 * hits, gold[i] + predicted[i]);
      num_present += 1;
    }
    products += gold[i] * predicted[i];
    gold_squares += gold[i] * gold[i];
    predicted_squares += predicted[i] * predicted[i];
  }
  const double spread = std::sqrt((total * total - predicted_squares) * (total * total - gold_squares));
  return Json{{"accuracy", ratio(correct, total)},
              {"macro_f1", ratio(f1_sum, num_present)},
              {"matthews_correlation", ratio(correct * total - products, spread)}};
}

}  // namespace finetune
