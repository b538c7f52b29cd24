#pragma once

#include <optional>
#include <vector>

namespace finetune {

/// Area under the ROC curve of scores for rows that hold (`positive` not 0) and those that do not; ties count
/// one half (scikit-learn's `roc_auc_score`). Nothing where one of the two kinds is missing.
std::optional<double> area_under_roc(const std::vector<double>& scores, const std::vector<bool>& positive);

/// Pearson's correlation; 0 where one side does not vary (scipy: undefined). Two passes in float64.
double pearson_correlation(const std::vector<double>& x, const std::vector<double>& y);

/// Spearman's: Pearson's of the ranks, ties given their mean rank.
double spearman_correlation(const std::vector<double>& x, const std::vector<double>& y);

}  // namespace finetune
