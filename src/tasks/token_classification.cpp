#include <algorithm>

#include "class_loss.h"
#include "finetune/metrics/classification.h"
#include "finetune/metrics/tagging.h"
#include "tasks.h"

namespace finetune {
namespace {

/// A class for each of a row's items: words, fields, or places in its text.
class TokenClassification final : public Task {
 public:
  TokenClassification(const TaskConfig& config, LabelMap labels, ItemKind items)
      : Task(config, std::move(labels)), items_(items), loss_(config) {}

  HeadConfig head() const override { return {.kind = HeadKind::kToken, .num_outputs = labels_.size()}; }

  std::vector<double> label_weights(const DeviceDataset& rows) const override {
    std::vector<double> weights;
    weights.reserve(static_cast<size_t>(rows.num_rows()));
    for (int64_t row = 0; row < rows.num_rows(); ++row) {
      const auto [first, last] = rows.labels_of(row, row + 1);
      double sum = 0;
      for (int64_t i = first; i < last; ++i) sum += loss_.weight(rows.host_labels[static_cast<size_t>(i)]);
      weights.push_back(sum);
    }
    return weights;
  }

  at::Tensor loss_sum(const at::Tensor& logits, const at::Tensor& labels) const override {
    return loss_.sum(logits, labels);
  }

  std::unique_ptr<Meter> make_meter(c10::Device device) const override {
    if (items_ == ItemKind::kWords)
      return std::make_unique<TaggingMeter>(labels_.names(), config_.ignore_index, device);
    return std::make_unique<ClassificationMeter>(labels_.size(), config_.ignore_index, device,
                                                 labels_.names());
  }

  Json answer(const Row& row, const RowLogits& logits) const override {
    const bool words = items_ == ItemKind::kWords;
    // An answer for what the model never saw: a word outside of everything, or nothing.
    const Json unseen = words && labels_.id("O") ? Json("O") : Json();
    Json labels = Json::array(), scores = Json::array();
    const float* values = logits.values;
    for (const int32_t position : logits.item_positions) {
      if (position < 0) {
        labels.push_back(unseen);
        scores.push_back(nullptr);
        continue;
      }
      const std::vector<double> shares = probabilities(values, labels_.size());
      const auto winner = std::max_element(values, values + labels_.size()) - values;
      labels.push_back(labels_.name(winner));
      scores.push_back(shares[static_cast<size_t>(winner)]);
      values += labels_.size();
    }
    Json answer;
    if (words) {
      answer["tokens"] = row.items;
    } else if (items_ == ItemKind::kFields) {
      answer["fields"] = row.items;
    } else {
      answer["positions"] = row.positions;
    }
    answer[words ? "tags" : "labels"] = std::move(labels);
    answer["scores"] = std::move(scores);
    return answer;
  }

 private:
  ItemKind items_;
  ClassLoss loss_;
};

}  // namespace

std::unique_ptr<Task> make_token_classification(const TaskConfig& config, LabelMap labels, ItemKind items) {
  return std::make_unique<TokenClassification>(config, std::move(labels), items);
}

}  // namespace finetune
