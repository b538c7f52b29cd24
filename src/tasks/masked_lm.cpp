#include "class_loss.h"
#include "finetune/core/error.h"
#include "finetune/metrics/language_model.h"
#include "hidden_tokens.h"
#include "tasks.h"

namespace finetune {
namespace {

HidingRule hiding_rule(const TaskConfig& config, const Tokenizer& tokenizer) {
  HidingRule rule{.fraction = config.mask_fraction, .vocab_size = tokenizer.vocab_size(), .special_ids = {}};
  std::optional<int32_t> mask;
  for (const char* name : {"[MASK]", "<mask>"}) {
    if (!mask) mask = tokenizer.token_to_id(name);
  }
  if (!mask) {
    throw CheckpointError(
        "the tokenizer has no mask token ([MASK] or <mask>), which task.type \"masked_lm\" hides tokens by; "
        "take the tokenizer files of a masked language model");
  }
  rule.mask_id = *mask;
  rule.special_ids = tokenizer.encode("", std::nullopt, {}).input_ids;
  rule.special_ids.push_back(*mask);
  rule.special_ids.push_back(tokenizer.pad_id());
  return rule;
}

/// Tokens of plain text that are hidden and told.
class MaskedLm final : public Task {
 public:
  MaskedLm(const TaskConfig& config, const Tokenizer& tokenizer)
      : Task(config, LabelMap()), rule_(hiding_rule(config, tokenizer)), loss_(config) {}

  HeadConfig head() const override { return {.kind = HeadKind::kMaskedLm, .num_outputs = rule_.vocab_size}; }

  void choose_targets(EncodedDataset& dataset) const override { add_targets(rule_, dataset); }

  Batch shown(Batch batch, const at::Tensor& rng) const override {
    return hide_tokens(std::move(batch), rule_, rng, config_.ignore_index);
  }

  std::vector<double> label_weights(const DeviceDataset& rows) const override {
    std::vector<double> weights;
    for (int64_t row = 0; row < rows.num_rows(); ++row) {
      const auto [first, last] = rows.labels_of(row, row + 1);
      weights.push_back(static_cast<double>(last - first));
    }
    return weights;
  }

  at::Tensor loss_sum(const at::Tensor& logits, const at::Tensor& labels) const override {
    return loss_.sum(logits, labels);
  }

  std::unique_ptr<Meter> make_meter(c10::Device device) const override {
    return std::make_unique<LanguageModelMeter>(device);
  }

  Json answer(const Row&, const RowLogits&) const override {
    throw ConfigError("a masked language model answers no rows; train a classifier from its directory");
  }

 private:
  HidingRule rule_;
  ClassLoss loss_;
};

}  // namespace

std::unique_ptr<Task> make_masked_lm(const TaskConfig& config, const Tokenizer& tokenizer) {
  return std::make_unique<MaskedLm>(config, tokenizer);
}

}  // namespace finetune
