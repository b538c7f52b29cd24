#include "finetune/metrics/scores.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

namespace finetune {
namespace {

/// From 1; equal values share the mean of their ranks.
std::vector<double> ranks(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> result(values.size());
  for (size_t first = 0; first < order.size();) {
    size_t last = first + 1;
    while (last < order.size() && values[order[last]] == values[order[first]]) ++last;
    const double rank = static_cast<double>(first + 1 + last) / 2;
    for (size_t i = first; i < last; ++i) result[order[i]] = rank;
    first = last;
  }
  return result;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

std::optional<double> area_under_roc(const std::vector<double>& scores, const std::vector<bool>& positive) {
  const std::vector<double> rank = ranks(scores);
  double num_positive = 0, rank_sum = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (!positive[i]) continue;
    num_positive += 1;
    rank_sum += rank[i];
  }
  const double num_negative = static_cast<double>(scores.size()) - num_positive;
  if (num_positive == 0 || num_negative == 0) return std::nullopt;
  return (rank_sum - num_positive * (num_positive + 1) / 2) / (num_positive * num_negative);
}

double pearson_correlation(const std::vector<double>& x, const std::vector<double>& y) {
  if (x.size() < 2) return 0;
  const double mean_x = mean(x), mean_y = mean(y);
  double xx = 0, yy = 0, xy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double dx = x[i] - mean_x, dy = y[i] - mean_y;
    xx += dx * dx;
    yy += dy * dy;
    xy += dx * dy;
  }
  if (xx == 0 || yy == 0) return 0;
  return std::clamp(xy / (std::sqrt(xx) * std::sqrt(yy)), -1.0, 1.0);
}

double spearman_correlation(const std::vector<double>& x, const std::vector<double>& y) {
  return pearson_correlation(ranks(x), ranks(y));
}

}  // namespace finetune
