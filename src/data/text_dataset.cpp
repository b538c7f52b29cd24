#include <algorithm>
#include <cmath>
#include <numeric>

#include "finetune/core/error.h"
#include "finetune/core/signals.h"
#include "finetune/data/encoded_dataset.h"
#include "finetune/data/message.h"

namespace finetune {
namespace {

constexpr int64_t kRowsBetweenPolls = 4096;

/// SplitMix64's output function: every input bit reaches every output bit.
uint64_t mix(uint64_t value) {
  value += 0x9E3779B97F4A7C15u;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
  return value ^ (value >> 31);
}

/// Gathers rows; pairs and labels exist from the first row that has one.
class DatasetBuilder {
 public:
  void add(Row& row, const std::filesystem::path& file) {
    if (dataset_.files.empty() || dataset_.files.back().native() != file.native())
      dataset_.files.push_back(file);
    dataset_.file_index.push_back(static_cast<uint32_t>(dataset_.files.size() - 1));
    dataset_.lines.push_back(row.line);
    append(dataset_.pairs, row.text_pair);
    append(dataset_.labels, row.label);
    dataset_.texts.push_back(std::move(row.text));
  }

  int64_t num_rows() const { return dataset_.num_rows(); }
  void add_replaced(int64_t count) { dataset_.num_replaced += count; }
  TextDataset finish() && { return std::move(dataset_); }

 private:
  /// Before the row's text is added, so that the number of texts is the number of rows before it.
  void append(std::vector<std::string>& column, std::optional<std::string>& value) {
    if (!value && column.empty()) return;
    column.resize(dataset_.texts.size());
    column.push_back(value ? std::move(*value) : std::string());
  }

  TextDataset dataset_;
};

/// Moves the rows at `indices` (ascending) into a data set of their own.
TextDataset take_rows(TextDataset& from, const std::vector<size_t>& indices) {
  TextDataset taken;
  taken.files = from.files;
  const auto move_column = [&](auto& source, auto& target) {
    if (source.empty()) return;
    target.reserve(indices.size());
    for (const size_t index : indices) target.push_back(std::move(source[index]));
  };
  move_column(from.texts, taken.texts);
  move_column(from.pairs, taken.pairs);
  move_column(from.labels, taken.labels);
  move_column(from.lines, taken.lines);
  move_column(from.file_index, taken.file_index);
  return taken;
}

}  // namespace

std::string TextDataset::place(int64_t row) const {
  const auto index = static_cast<size_t>(row);
  const std::string file = files.at(file_index.at(index)).string();
  return lines[index] > 0 ? file + ":" + std::to_string(lines[index]) : file;
}

TextDataset read_dataset(const std::vector<std::filesystem::path>& files, const DataConfig& config,
                         LabelPresence labels, std::optional<int64_t> max_rows) {
  DatasetBuilder builder;
  const auto is_full = [&] { return max_rows && builder.num_rows() >= *max_rows; };
  for (const std::filesystem::path& path : files) {
    if (is_full()) break;
    const auto reader = open_rows(path, config, labels);
    const int64_t before = builder.num_rows();
    Row row;
    while (!is_full() && reader->next(row)) {
      builder.add(row, reader->file());
      if (builder.num_rows() % kRowsBetweenPolls == 0) throw_if_stop_requested();
    }
    builder.add_replaced(reader->num_replaced_rows());
    if (builder.num_rows() == before) {
      throw_data_error(path, 0,
                       "no rows, expected at least one (a header alone is not enough); check the file");
    }
  }
  if (builder.num_rows() == 0)
    throw DataError("no rows: no data file was given, expected at least one; set data.train");
  return std::move(builder).finish();
}

TextDataset split_off(TextDataset& train, double fraction, uint64_t seed) {
  if (!(fraction > 0.0 && fraction < 1.0)) {
    throw ConfigError("data.validation_fraction is " + std::to_string(fraction) +
                      ", expected more than 0 and less than 1");
  }
  const size_t num_rows = train.texts.size();
  if (num_rows < 2) {
    throw DataError(
        "cannot split off validation rows: there is " + std::to_string(num_rows) +
        " training row, expected at least 2; set data.validation, or data.validation_fraction to 0");
  }
  const auto wanted = static_cast<size_t>(std::llround(fraction * static_cast<double>(num_rows)));
  const size_t count = std::clamp<size_t>(wanted, 1, num_rows - 1);

  std::vector<size_t> order(num_rows);
  std::iota(order.begin(), order.end(), size_t{0});
  const uint64_t stream = mix(seed);
  const auto rank = [&](size_t row) { return mix(stream ^ mix(row)); };
  std::nth_element(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                   [&](size_t a, size_t b) { return std::pair(rank(a), a) < std::pair(rank(b), b); });
  const auto middle = order.begin() + static_cast<std::ptrdiff_t>(count);
  std::vector<size_t> out(order.begin(), middle);
  std::vector<size_t> stay(middle, order.end());
  std::sort(out.begin(), out.end());
  std::sort(stay.begin(), stay.end());

  TextDataset validation = take_rows(train, out);
  const int64_t num_replaced = train.num_replaced;
  train = take_rows(train, stay);
  train.num_replaced = num_replaced;
  return validation;
}

}  // namespace finetune
