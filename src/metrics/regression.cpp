#include "finetune/metrics/regression.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>

#include "finetune/metrics/scores.h"

namespace finetune {

void RegressionMeter::add(const at::Tensor& loss_sum, const at::Tensor& logits, const at::Tensor& labels,
                          double label_weight) {
  const at::NoGradGuard no_grad;
  loss_.add(loss_sum, label_weight);
  pairs_.add(at::cat({logits.detach(), labels}, 1));
}

Json RegressionMeter::drain() {
  std::vector<double> answers, labels;
  if (const at::Tensor pairs = pairs_.drain(); pairs.defined()) {
    const auto* pair = pairs.const_data_ptr<float>();
    for (int64_t i = 0; i < pairs.size(0); ++i, pair += 2) {
      if (std::isnan(pair[1])) continue;
      answers.push_back(pair[0]);
      labels.push_back(pair[1]);
    }
  }
  double squares = 0, distances = 0;
  for (size_t i = 0; i < answers.size(); ++i) {
    const double error = answers[i] - labels[i];
    squares += error * error;
    distances += std::abs(error);
  }
  const double count = answers.empty() ? 1.0 : static_cast<double>(answers.size());
  return Json{{"loss", loss_.drain()},
              {"mse", squares / count},
              {"mae", distances / count},
              {"pearson", pearson_correlation(answers, labels)},
              {"spearman", spearman_correlation(answers, labels)}};
}

}  // namespace finetune
