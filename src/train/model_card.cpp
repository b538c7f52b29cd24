#include "model_card.h"

#include <sstream>

#include "finetune/core/text.h"
#include "finetune/report/headline.h"

namespace finetune {

namespace {

/// A line a split, under the titles of the metrics that the task has.
void write_metrics(std::ostringstream& text, const Json& metrics) {
  if (metrics.empty()) return;
  const auto columns = main_metrics(metrics.begin().value());
  text << "| split |";
  for (const auto& [key, title] : columns) text << " " << title << " |";
  text << "\n|---|";
  for (size_t i = 0; i < columns.size(); ++i) text << "---|";
  text << "\n";
  for (const auto& [split, values] : metrics.items()) {
    text << "| " << split << " |";
    for (const auto& [key, title] : columns) text << " " << values.value(key, 0.0) << " |";
    text << "\n";
  }
}

}  // namespace

std::string model_card(const RunConfig& config, const Task& task, const Json& metrics) {
  std::ostringstream text;
  text << "# " << config.model.path.filename().string() << ", fine-tuned for " << task_name(config.task.type)
       << "\n\n";
  if (task.labels().size() > 0) text << "Labels: " << join_some(task.labels().names(), 100) << ".\n\n";
  write_metrics(text, metrics);
  text << "\nTrained with learning rate " << config.optimizer.learning_rate << ", batch size "
       << config.train.batch_size << ", at most " << config.data.max_length << " tokens a row, seed "
       << config.seed << ".\n\n";
  if (task.head().kind == HeadKind::kMaskedLm) {
    text << "An encoder to train a classifier from (`model.path`), or in transformers:\n\n"
         << "```python\nfrom transformers import AutoModelForMaskedLM\n"
         << "model = AutoModelForMaskedLM.from_pretrained(\".\")\n```\n";
    return text.str();
  }
  text << "```sh\nfinetune predict --model . --input texts.txt\n```\n\n";
  if (task.head().kind == HeadKind::kSequence && config.model.pooling != Pooling::kPooler) {
    text << "Its head reads "
         << (config.model.pooling == Pooling::kCls ? "the first token" : "the mean of a row's tokens")
         << " (`model.pooling`), which no class of transformers does: `AutoModel` loads the encoder alone.\n";
    return text.str();
  }
  text << "```python\nfrom transformers import pipeline\n"
       << "answer = pipeline(\""
       << (task.head().kind == HeadKind::kToken ? "token-classification" : "text-classification")
       << "\", model=\".\")\n```\n";
  return text.str();
}

}  // namespace finetune
