#include "model_card.h"

#include <sstream>

#include "finetune/core/text.h"

namespace finetune {

std::string model_card(const RunConfig& config, const Task& task, const Json& metrics) {
  std::ostringstream text;
  text << "# " << config.model.path.filename().string() << ", fine-tuned for " << task_name(config.task.type)
       << "\n\n"
       << "Labels: " << join_some(task.labels().names(), 100) << ".\n\n";
  text << "| split | loss | accuracy | macro F1 |\n|---|---|---|---|\n";
  for (const auto& [split, values] : metrics.items()) {
    text << "| " << split << " | " << values.value("loss", 0.0) << " | " << values.value("accuracy", 0.0)
         << " | " << values.value("macro_f1", 0.0) << " |\n";
  }
  text << "\nTrained with learning rate " << config.optimizer.learning_rate << ", batch size "
       << config.train.batch_size << ", at most " << config.data.max_length << " tokens a row, seed "
       << config.seed << ".\n\n"
       << "```sh\nfinetune predict --model . --input texts.txt\n```\n\n"
       << "```python\nfrom transformers import pipeline\n"
       << "classify = pipeline(\"text-classification\", model=\".\")\n```\n";
  return text.str();
}

}  // namespace finetune
