#include <algorithm>
#include <cstdio>

#include "finetune/core/text.h"
#include "finetune/data/inspection.h"
#include "finetune/data/message.h"

namespace finetune {
namespace {

constexpr size_t kMostClassesShown = 20;
constexpr size_t kMostTokensShown = 40;

std::string percent(int64_t part, int64_t whole) {
  char text[32];
  const double share = whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
  std::snprintf(text, sizeof(text), share > 0 && share < 10 ? "%.1f %%" : "%.0f %%", share);
  return text;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", value);
  return text;
}

std::string rows_text(int64_t count) { return with_thousands(count) + (count == 1 ? " row" : " rows"); }

std::string examples_text(const std::vector<RowCouple>& examples) {
  std::string text;
  for (const RowCouple& couple : examples) text += "\n    " + couple.first + " and " + couple.second;
  return text;
}

std::string lengths_text(const LengthReport& lengths) {
  const char* unit = lengths.in_tokens ? "tokens" : "words";
  std::string text = std::string("  length in ") + unit + ": mean " + number(lengths.mean) + ", median " +
                     std::to_string(lengths.median) + ", 95 % up to " + std::to_string(lengths.p95) +
                     ", 99 % up to " + std::to_string(lengths.p99) + ", longest " +
                     std::to_string(lengths.longest);
  if (lengths.in_tokens) {
    text += "\n  truncated at max_length";
    const char* separator = " ";
    for (const auto& [limit, rows] : lengths.longer_than) {
      text += separator + std::to_string(limit) + ": " + percent(rows, lengths.rows);
      separator = ", ";
    }
    if (lengths.unknown > 0) {
      text += "\n  not in the vocabulary: " + with_thousands(lengths.unknown) + " of " +
              with_thousands(lengths.total) + " tokens (" + percent(lengths.unknown, lengths.total) + ")";
    }
  } else {
    text += " (--model or --config counts tokens)";
  }
  return text + "\n";
}

std::string labels_text(const LabelReport& labels) {
  std::string text;
  if (labels.are_numbers) {
    if (labels.numbers > 0) {
      text += "  labels: " + with_thousands(labels.numbers) + " numbers from " + number(labels.lowest) +
              " to " + number(labels.highest) + ", mean " + number(labels.mean) + ", standard deviation " +
              number(labels.deviation) + "\n";
    }
    if (labels.not_numbers > 0)
      text += "  labels that are no numbers: " + rows_text(labels.not_numbers) + "\n";
  } else if (!labels.counts.empty()) {
    int64_t all = 0;
    size_t widest = 0;
    for (const auto& [name, count] : labels.counts) all += count;
    const size_t num_shown = std::min(labels.counts.size(), kMostClassesShown);
    for (size_t i = 0; i < num_shown; ++i) widest = std::max(widest, labels.counts[i].first.size());
    widest = std::min<size_t>(widest, 40);
    text += "  labels: " + std::string(labels.complete ? "" : "more than ") +
            with_thousands(static_cast<long long>(labels.counts.size())) + " classes\n";
    for (size_t i = 0; i < num_shown; ++i) {
      const auto& [name, count] = labels.counts[i];
      std::string shown_name = shown(name).substr(1);
      shown_name.pop_back();
      shown_name.resize(std::max(shown_name.size(), widest), ' ');
      text += "    " + shown_name + "  " + with_thousands(count) + " (" + percent(count, all) + ")\n";
    }
    if (num_shown < labels.counts.size()) {
      text += "    and " + std::to_string(labels.counts.size() - num_shown) + " more\n";
    }
  }
  if (labels.unlabelled > 0) text += "  without a label: " + rows_text(labels.unlabelled) + "\n";
  return text;
}

std::string duplicates_text(const DuplicateReport& duplicates, int64_t rows) {
  std::string text = "  duplicates: ";
  if (duplicates.repeated == 0) return text + "none\n";
  text += rows_text(duplicates.repeated) + " (" + percent(duplicates.repeated, rows) +
          ") repeat an earlier one" + examples_text(duplicates.examples) + "\n";
  if (duplicates.conflicting > 0) {
    text += "  same text, different labels: " + rows_text(duplicates.conflicting) +
            examples_text(duplicates.conflicts) + "\n";
  }
  return text;
}

std::string sample_text(const Sample& sample) {
  std::string text = "  " + sample.place + ": " + shown(sample.text) +
                     (sample.text_pair.empty() ? "" : " + " + shown(sample.text_pair)) + " -> " +
                     shown(sample.label) + "\n";
  if (sample.tokens.empty()) return text;
  text += "   ";
  for (size_t i = 0; i < std::min(sample.tokens.size(), kMostTokensShown); ++i)
    text += " " + sample.tokens[i];
  if (sample.tokens.size() > kMostTokensShown) {
    text += " ... " + std::to_string(sample.tokens.size() - kMostTokensShown) + " more";
  }
  return text + "\n";
}

Json examples_json(const std::vector<RowCouple>& examples) {
  Json list = Json::array();
  for (const RowCouple& couple : examples) list.push_back({couple.first, couple.second});
  return list;
}

Json to_json(const LengthReport& lengths) {
  Json truncated = Json::object();
  for (const auto& [limit, rows] : lengths.longer_than) truncated[std::to_string(limit)] = rows;
  return {{"unit", lengths.in_tokens ? "tokens" : "words"},
          {"total", lengths.total},
          {"mean", lengths.mean},
          {"median", lengths.median},
          {"p90", lengths.p90},
          {"p95", lengths.p95},
          {"p99", lengths.p99},
          {"longest", lengths.longest},
          {"longer_than", truncated},
          {"unknown", lengths.unknown}};
}

Json to_json(const LabelReport& labels) {
  Json json{{"unlabelled", labels.unlabelled}};
  if (labels.are_numbers) {
    json.update(Json{{"numbers", labels.numbers},
                     {"not_numbers", labels.not_numbers},
                     {"mean", labels.mean},
                     {"standard_deviation", labels.deviation},
                     {"lowest", labels.lowest},
                     {"highest", labels.highest}});
    return json;
  }
  Json counts = Json::object();
  for (const auto& [name, count] : labels.counts) counts[name] = count;
  json["counts"] = std::move(counts);
  json["complete"] = labels.complete;
  return json;
}

Json to_json(const SplitReport& split) {
  Json samples = Json::array();
  for (const Sample& sample : split.samples) {
    Json json{
        {"place", sample.place}, {"text", sample.text}, {"label", sample.label}, {"tokens", sample.tokens}};
    if (!sample.text_pair.empty()) json["text_pair"] = sample.text_pair;
    samples.push_back(std::move(json));
  }
  return {{"rows", split.rows},
          {"empty_texts", split.empty_texts},
          {"replaced", split.replaced},
          {"lengths", to_json(split.lengths)},
          {"labels", to_json(split.labels)},
          {"duplicates",
           {{"repeated", split.duplicates.repeated},
            {"conflicting", split.duplicates.conflicting},
            {"examples", examples_json(split.duplicates.examples)},
            {"conflicts", examples_json(split.duplicates.conflicts)}}},
          {"warnings", split.warnings},
          {"samples", samples}};
}

}  // namespace

Json to_json(const InspectionReport& report) {
  Json splits = Json::object();
  for (const SplitReport& split : report.splits) splits[split.name] = to_json(split);
  Json leaks = Json::array();
  for (const Leak& leak : report.leaks) {
    leaks.push_back({{"from", leak.from},
                     {"into", leak.into},
                     {"rows", leak.rows},
                     {"other_label", leak.other_label},
                     {"examples", examples_json(leak.examples)}});
  }
  return {{"splits", splits}, {"leaks", leaks}, {"warnings", report.warnings}, {"compared", report.compared}};
}

std::string to_text(const InspectionReport& report) {
  std::string text;
  for (const SplitReport& split : report.splits) {
    text += split.name + ": " + rows_text(split.rows) + "\n";
    if (split.empty_texts > 0) text += "  without a text: " + rows_text(split.empty_texts) + "\n";
    if (split.replaced > 0)
      text += "  with bytes that are not UTF-8, replaced: " + rows_text(split.replaced) + "\n";
    text += lengths_text(split.lengths) + labels_text(split.labels) +
            duplicates_text(split.duplicates, split.rows);
    for (const std::string& warning : split.warnings) text += "  suspicious: " + warning + "\n";
    for (const Sample& sample : split.samples) text += sample_text(sample);
  }
  for (const Leak& leak : report.leaks) {
    text += "leak: " + rows_text(leak.rows) + " of " + leak.into + " have a text that " + leak.from +
            " has, " + with_thousands(leak.other_label) + " of them with another label" +
            examples_text(leak.examples) + "\n";
  }
  if (report.splits.size() > 1 && report.leaks.empty()) text += "leaks: no text is in two of these\n";
  for (const std::string& warning : report.warnings) text += "warning: " + warning + "\n";
  if (report.compared < 1) {
    text += "duplicates and leaks are estimated from " + number(100 * report.compared) + " % of the texts\n";
  }
  return text;
}

}  // namespace finetune
