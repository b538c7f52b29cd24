#include "finetune/report/result_text.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <tuple>

#include "finetune/report/headline.h"

namespace finetune {
namespace {

constexpr size_t kLongestLabel = 16;
constexpr size_t kMostMistakes = 10;
constexpr size_t kMetricWidth = 11;

/// The bytes of the character that begins at `text[at]`, UTF-8, and the columns that a terminal gives it: two
/// for East Asian wide characters and emoji (Unicode's annex 11, by blocks), none for combining marks.
std::pair<size_t, size_t> character_at(const std::string& text, size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  const size_t length = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  uint32_t code = length == 1 ? first : first & (0xFFu >> (length + 1));
  for (size_t i = 1; i < length && at + i < text.size(); ++i) {
    code = code << 6 | (static_cast<unsigned char>(text[at + i]) & 0x3Fu);
  }
  if (code >= 0x300 && code < 0x370) return {length, 0};
  const bool wide = (code >= 0x1100 && code < 0x1160) || (code >= 0x2E80 && code < 0xA4D0) ||
                    (code >= 0xAC00 && code < 0xD7A4) || (code >= 0xF900 && code < 0xFB00) ||
                    (code >= 0xFF00 && code < 0xFF61) || (code >= 0x1F300 && code < 0x1FB00) ||
                    code >= 0x20000;
  return {length, wide ? 2 : 1};
}

size_t columns_of(const std::string& text) {
  size_t columns = 0;
  for (size_t at = 0; at < text.size();) {
    const auto [length, width] = character_at(text, at);
    at += length;
    columns += width;
  }
  return columns;
}

/// At most `width` columns of `text`; a full stop in the place of what was cut off.
std::string shortened(const std::string& text, size_t width) {
  if (columns_of(text) <= width) return text;
  size_t at = 0, columns = 0;
  while (at < text.size()) {
    const auto [length, own] = character_at(text, at);
    if (columns + own + 1 > width) break;
    at += length;
    columns += own;
  }
  std::string cut = text.substr(0, at);
  cut += '.';
  return cut;
}

/// `text` cut to `width` columns, padded on the left or on the right.
std::string cell(const std::string& text, size_t width, bool right) {
  std::string shown = shortened(text, width);
  const size_t columns = columns_of(shown);
  const size_t free = columns < width ? width - columns : 0;
  shown.insert(right ? 0 : shown.size(), free, ' ');
  return shown;
}

std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4f", value);
  return text;
}

/// What is counted: the metrics of one evaluation, under its name.
std::vector<std::pair<std::string, const Json*>> evaluations(const Json& metrics) {
  std::vector<std::pair<std::string, const Json*>> found;
  for (const auto& [split, values] : metrics.items()) {
    if (values.contains("loss")) {
      found.emplace_back(split, &values);
      continue;
    }
    for (const auto& [file, own] : values.items()) {
      if (own.is_object() && own.contains("loss")) found.emplace_back(split + " " + file, &own);
    }
  }
  return found;
}

std::string most_mistakes(const Json& confusion, const std::vector<std::string>& labels, size_t width) {
  std::vector<std::tuple<int64_t, size_t, size_t>> mistakes;
  for (size_t gold = 0; gold < labels.size(); ++gold) {
    for (size_t answer = 0; answer < labels.size(); ++answer) {
      const auto count = confusion[gold][answer].get<int64_t>();
      if (gold != answer && count > 0) mistakes.emplace_back(-count, gold, answer);
    }
  }
  std::sort(mistakes.begin(), mistakes.end());
  std::string text = "most frequent mistakes, of " + std::to_string(mistakes.size()) + " kinds\n";
  const size_t label_width = (width - 14) / 2;
  for (size_t i = 0; i < std::min(kMostMistakes, mistakes.size()); ++i) {
    const auto [count, gold, answer] = mistakes[i];
    text += cell(std::to_string(-count), 8, true) + "  " + shortened(labels[gold], label_width) + " -> " +
            shortened(labels[answer], label_width) + "\n";
  }
  return text;
}

}  // namespace

std::string metrics_table(const Json& metrics) {
  const auto rows = evaluations(metrics);
  if (rows.empty()) return "";
  const auto columns = main_metrics(*rows.front().second);
  size_t name_width = 0;
  for (const auto& [name, values] : rows) name_width = std::max(name_width, columns_of(name));
  name_width = std::min<size_t>(name_width, 30);
  std::string text = std::string(name_width, ' ');
  for (const auto& [key, title] : columns) text += cell(title, kMetricWidth, true);
  for (const auto& [name, values] : rows) {
    text += '\n';
    text += cell(name, name_width, false);
    for (const auto& [key, title] : columns) {
      const auto value = values->find(key);
      const bool known = value != values->end() && value->is_number();
      text += cell(known ? number_text(value->get<double>()) : "-", kMetricWidth, true);
    }
  }
  return text + "\n";
}

std::string confusion_text(const Json& confusion, const std::vector<std::string>& labels, int width) {
  if (labels.empty() || confusion.size() != labels.size()) return "";
  size_t name_width = 0, count_width = 4;
  for (const std::string& label : labels) name_width = std::max(name_width, columns_of(label));
  name_width = std::min(name_width, kLongestLabel);
  for (const Json& row : confusion) {
    for (const Json& count : row)
      count_width = std::max(count_width, std::to_string(count.get<int64_t>()).size());
  }
  const size_t room = static_cast<size_t>(std::max(width, 40));
  if (name_width + labels.size() * (count_width + 1) > room) return most_mistakes(confusion, labels, room);
  // Titles as wide as there is room for.
  const size_t column = std::min(name_width, (room - name_width) / labels.size() - 1);
  const size_t wide = std::max(column, count_width);
  std::string text = "labels down, answers across\n" + cell("", name_width, false);
  for (const std::string& label : labels) text += cell(label, wide, true).insert(0, 1, ' ');
  text += "\n";
  for (size_t gold = 0; gold < labels.size(); ++gold) {
    text += cell(labels[gold], name_width, false);
    for (const Json& count : confusion[gold]) {
      text += cell(std::to_string(count.get<int64_t>()), wide, true).insert(0, 1, ' ');
    }
    text += "\n";
  }
  return text;
}

}  // namespace finetune
