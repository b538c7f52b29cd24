#include "run_details.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "finetune/core/file.h"
#include "row_texts.h"

namespace finetune {
namespace {

constexpr int64_t kBars = 32;           ///< of a histogram, at most
constexpr size_t kMostTextBytes = 600;  ///< of an answer
constexpr size_t kMostLabels = 1000;

Json lengths_histogram(const std::vector<int32_t>& lengths) {
  const int64_t longest = lengths.empty() ? 1 : *std::max_element(lengths.begin(), lengths.end());
  const int64_t width = std::max<int64_t>((longest + kBars - 1) / kBars, 1);
  std::vector<int64_t> counts(static_cast<size_t>((longest + width - 1) / width), 0);
  for (const int32_t length : lengths) ++counts[static_cast<size_t>(std::max(length - 1, 0) / width)];
  return Json{{"width", width}, {"counts", counts}};
}

Json values_histogram(const std::vector<float>& values) {
  std::vector<double> known;
  for (const float value : values) {
    if (std::isfinite(value)) known.push_back(static_cast<double>(value));
  }
  if (known.empty()) return Json{{"first", 0}, {"width", 1}, {"counts", Json::array()}};
  const auto [least, most] = std::minmax_element(known.begin(), known.end());
  constexpr size_t kCount = 20;
  const double first = *least, width = *most > *least ? (*most - *least) / kCount : 1.0;
  std::vector<int64_t> counts(kCount, 0);
  for (const double value : known)
    ++counts[std::min(static_cast<size_t>((value - first) / width), kCount - 1)];
  return Json{{"first", first}, {"width", width}, {"counts", counts}};
}

/// How often each label occurs, in the order of the labels.
Json label_counts(const DeviceDataset& rows, const LabelMap& labels) {
  std::vector<int64_t> counts(static_cast<size_t>(labels.size()), 0);
  for (const int64_t label : rows.host_labels) {
    if (label >= 0 && label < labels.size()) ++counts[static_cast<size_t>(label)];
  }
  for (size_t i = 0; i < rows.host_values.size(); ++i) {
    if (rows.host_values[i] > 0.5f) ++counts[i % counts.size()];
  }
  Json result = Json::object();
  for (size_t id = 0; id < std::min(counts.size(), kMostLabels); ++id)
    result[labels.name(static_cast<int64_t>(id))] = counts[id];
  return result;
}

/// At most `kMostTextBytes` of it, cut between characters.
std::string shortened(const std::string& text) {
  if (text.size() <= kMostTextBytes) return text;
  size_t end = kMostTextBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return text.substr(0, end) + "\u2026";
}

/// A row's text, its items marked where one of them is meant.
std::string text_of(const Row& row, int64_t item) {
  if (row.items.empty()) return shortened(row.text);
  std::string text = row.text;
  // The neighbours of the item matter, not the beginning of a long row.
  constexpr int64_t kAround = 12;
  const int64_t count = static_cast<int64_t>(row.items.size());
  for (int64_t i = std::max<int64_t>(item - kAround, 0); i < std::min(item + kAround + 1, count); ++i) {
    if (!text.empty()) text += ' ';
    const std::string& word = row.items[static_cast<size_t>(i)];
    if (i == item) {
      text.append("\u3010").append(word).append("\u3011");
    } else {
      text += word;
    }
  }
  return shortened(text);
}

/// Where a label lies.
struct Place {
  int64_t row, item;  ///< item: -1 where rows are labelled
};

Place place_of(int64_t index, const DeviceDataset& rows) {
  if (!rows.has_targets()) return {index, -1};
  const auto& offsets = rows.host_target_offsets;
  const int64_t row = std::upper_bound(offsets.begin(), offsets.end(), index) - offsets.begin() - 1;
  int64_t target = index - offsets[static_cast<size_t>(row)];
  const int64_t first = rows.item_offsets[static_cast<size_t>(row)];
  const int64_t last = rows.item_offsets[static_cast<size_t>(row) + 1];
  for (int64_t item = first; item < last; ++item) {
    if (rows.item_positions[static_cast<size_t>(item)] >= 0 && target-- == 0) return {row, item - first};
  }
  return {row, -1};
}

/// Answers as JSON, with the texts of their rows.
class AnswerWriter {
 public:
  AnswerWriter(const DeviceDataset& rows, const Task& task, LabelShape shape,
               std::map<int64_t, FoundRow> texts)
      : rows_(rows), labels_(task.labels()), shape_(shape), texts_(std::move(texts)) {}

  Json list(const std::vector<Answer>& answers) const {
    Json result = Json::array();
    for (const Answer& answer : answers) result.push_back(one(answer));
    return result;
  }

 private:
  Json one(const Answer& answer) const {
    const Place place = place_of(answer.index, rows_);
    Json json{{"row", place.row}};
    if (place.item >= 0) json["item"] = place.item;
    if (shape_ == LabelShape::kValue) {
      json.update(Json{{"gold", answer.gold}, {"predicted", answer.predicted}});
    } else if (shape_ == LabelShape::kClasses) {
      json.update(
          Json{{"label", name(answer.predicted)}, {"gold", answer.gold > 0.5}, {"score", answer.score}});
    } else {
      json.update(
          Json{{"gold", name(answer.gold)}, {"predicted", name(answer.predicted)}, {"score", answer.score}});
    }
    json["error"] = answer.error;
    const auto found = texts_.find(place.row);
    if (found != texts_.end() && is_the_row(found->second.row, place, answer)) {
      json["file"] = found->second.file.filename().string();
      json["line"] = found->second.row.line;
      json["text"] = text_of(found->second.row, place.item);
      if (found->second.row.text_pair) json["text_pair"] = shortened(*found->second.row.text_pair);
    }
    return json;
  }

  std::string name(double id) const { return labels_.name(static_cast<int64_t>(id)); }

  /// A file may have changed since it was read: rather no text than another row's.
  bool is_the_row(const Row& row, const Place& place, const Answer& answer) const {
    if (shape_ == LabelShape::kClass) return row.label == name(answer.gold);
    if (shape_ != LabelShape::kItems) return true;
    const auto item = static_cast<size_t>(place.item);
    // A tag may have been rewritten from IOB1.
    return place.item >= 0 && (!row.labels || item < row.labels->size());
  }

  const DeviceDataset& rows_;
  const LabelMap& labels_;
  LabelShape shape_;
  std::map<int64_t, FoundRow> texts_;
};

Json calibration_json(const std::vector<CalibrationBin>& bins) {
  Json result = Json::array();
  for (const CalibrationBin& bin : bins)
    result.push_back(Json{{"count", bin.count}, {"score", bin.score}, {"right", bin.right}});
  return result;
}

const char* kind_of(LabelShape shape) {
  if (shape == LabelShape::kValue) return "values";
  return shape == LabelShape::kClasses ? "label_sets" : "classes";
}

}  // namespace

RunDetails::RunDetails(std::filesystem::path folder, const RunConfig& config, const Inputs& inputs)
    : folder_(std::move(folder)), config_(config), inputs_(inputs) {
  content_ = Json{{"data", Json::object()}, {"evaluations", Json::object()}};
  const auto describe = [&](const std::string& name, const DeviceDataset& rows) {
    Json split = inputs.description.value(name, Json::object());
    split["lengths"] = lengths_histogram(rows.lengths);
    if (config.data.label_shape == LabelShape::kValue) {
      split["values"] = values_histogram(rows.host_values);
    } else {
      split["labels"] = label_counts(rows, inputs.task->labels());
    }
    content_["data"][name] = std::move(split);
  };
  describe("train", inputs.train);
  for (const auto& [name, rows] : inputs.validation) describe(name, rows);
  for (const auto& [name, rows] : inputs.test) describe(name, rows);
}

AnswerMeter RunDetails::make_meter(c10::Device device) const {
  return {config_.data.label_shape, config_.task.ignore_index, config_.task.threshold, device};
}

void RunDetails::add_evaluation(const std::string& split, const std::string& name, const DeviceDataset& rows,
                                const AnswerSummary& answers) {
  std::set<int64_t> numbers;
  for (const auto* list : {&answers.worst, &answers.confident}) {
    for (const Answer& answer : *list) numbers.insert(place_of(answer.index, rows).row);
  }
  const AnswerWriter writer(
      rows, *inputs_.task, config_.data.label_shape,
      read_rows_again(config_, split, name, inputs_.train.num_texts(), rows.num_texts(), numbers));
  content_["evaluations"][name] = Json{{"kind", kind_of(config_.data.label_shape)},
                                       {"calibration", calibration_json(answers.calibration)},
                                       {"worst", writer.list(answers.worst)},
                                       {"confident", writer.list(answers.confident)}};
}

void RunDetails::write() const {
  write_file_atomically(folder_ / "details.json",
                        content_.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace finetune
