#include "finetune/report/headline.h"

#include <cstdio>

namespace finetune {

std::vector<std::pair<std::string, std::string>> main_metrics(const Json& metrics) {
  const bool entities = metrics.contains("f1");
  std::vector<std::pair<std::string, std::string>> found;
  const auto add = [&](const char* key, const char* title) {
    if (metrics.contains(key)) found.emplace_back(key, title);
  };
  add("loss", "loss");
  add("perplexity", "perplexity");
  add("accuracy", "accuracy");
  if (!entities) add("macro_f1", "macro F1");
  add("precision", "precision");
  add("recall", "recall");
  add("f1", "F1");
  add("pearson", "Pearson");
  add("spearman", "Spearman");
  return found;
}

std::string headline(const Json& metrics) {
  std::string text;
  for (const auto& [key, title] : main_metrics(metrics)) {
    char value[32];
    std::snprintf(value, sizeof(value), "%.4f", metrics.at(key).get<double>());
    if (!text.empty()) text += ", ";
    text += title;
    text += ' ';
    text += value;
  }
  return text;
}

}  // namespace finetune
