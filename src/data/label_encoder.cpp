#include "label_encoder.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "finetune/core/error.h"
#include "finetune/data/message.h"

namespace finetune {
namespace {

[[noreturn]] void refuse_label(const std::string& place, const std::string& label, const LabelMap& labels) {
  throw DataError(place + ": label " + shown(label) + " is not known; the " + std::to_string(labels.size()) +
                  " known labels are " + shown_list(labels.names()) + suggestion(label, labels.names()) +
                  "; correct the row, or train with data (or task.labels) that has this label");
}

/// An empty label, and the number that stands for no label, are ignored.
HostArray<int64_t> class_ids(const TextDataset& rows, const LabelMap& labels, int64_t ignore_index) {
  const std::string ignored = std::to_string(ignore_index);
  HostArray<int64_t> ids;
  for (int64_t row = 0; row < rows.num_rows() && !rows.labels.empty(); ++row) {
    const auto [begin, end] = rows.label_range(row);
    for (size_t i = begin; i < end; ++i) {
      const std::string& label = rows.labels[i];
      const auto id = label.empty() ? ignore_index : labels.id(label);
      if (!id && label != ignored) refuse_label(rows.place(row), label, labels);
      ids.push_back(id.value_or(ignore_index));
    }
  }
  return ids;
}

/// 1 for each class that holds, else 0.
HostArray<float> indicators(const TextDataset& rows, const LabelMap& labels) {
  HostArray<float> values;
  std::vector<float> of_row(static_cast<size_t>(labels.size()));
  for (int64_t row = 0; row < rows.num_rows() && !rows.label_offsets.empty(); ++row) {
    std::fill(of_row.begin(), of_row.end(), 0.0f);
    const auto [begin, end] = rows.label_range(row);
    for (size_t i = begin; i < end; ++i) {
      const std::string& label = rows.labels[i];
      const auto id = labels.id(label);
      if (label.empty()) {
        throw DataError(rows.place(row) + ": an empty label between separators (data.label_separator is " +
                        shown(rows.label_separator) + "), expected a class; remove the separator");
      }
      if (!id) refuse_label(rows.place(row), label, labels);
      of_row[static_cast<size_t>(*id)] = 1.0f;
    }
    values.append(of_row.data(), of_row.data() + of_row.size());
  }
  return values;
}

/// An empty label is a value that is not known.
HostArray<float> numbers(const TextDataset& rows) {
  HostArray<float> values;
  for (size_t row = 0; row < rows.labels.size(); ++row) {
    const std::string& label = rows.labels[row];
    float value = std::numeric_limits<float>::quiet_NaN();
    if (!label.empty()) {
      const char* end = label.data() + label.size();
      const auto [stop, error] = std::from_chars(label.data(), end, value);
      if (error != std::errc() || stop != end || !std::isfinite(value)) {
        throw DataError(
            rows.place(static_cast<int64_t>(row)) + ": label " + shown(label) +
            " is no finite number, which task.type \"regression\" expects; correct the row, or set "
            "data.label or task.type");
      }
    }
    values.push_back(value);
  }
  return values;
}

}  // namespace

EncodedLabels encode_labels(const TextDataset& rows, const LabelMap& labels, int64_t ignore_index) {
  switch (rows.label_shape) {
    case LabelShape::kClass:
    case LabelShape::kItems:
      return {class_ids(rows, labels, ignore_index), {}};
    case LabelShape::kClasses:
      return {{}, indicators(rows, labels)};
    case LabelShape::kValue:
      return {{}, numbers(rows)};
    case LabelShape::kNone:
      break;
  }
  return {};
}

}  // namespace finetune
