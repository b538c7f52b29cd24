#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "finetune/core/error.h"
#include "finetune/core/signals.h"
#include "finetune/data/encoded_rows.h"
#include "finetune/data/message.h"
#include "row_stream.h"

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
  move_column(from.lines, taken.lines);
  move_column(from.file_index, taken.file_index);
  if (!from.labels.empty()) {
    for (const size_t index : indices) taken.labels.push_back(from.labels[index]);
  }
  return taken;
}

/// The encoded tokens of the rows at `indices`.
EncodedRows take_encoded(EncodedRows& from, const std::vector<size_t>& indices) {
  EncodedRows taken;
  taken.rows = take_rows(from.rows, indices);
  const EncodedDataset& source = from.dataset;
  EncodedDataset& target = taken.dataset;
  target.row_offsets.push_back(0);
  for (const size_t index : indices) {
    const int32_t* ids = source.input_ids.data();
    target.input_ids.append(ids + source.row_offsets[index], ids + source.row_offsets[index + 1]);
    target.row_offsets.push_back(static_cast<int64_t>(target.input_ids.size()));
    target.second_segments.push_back(source.second_segments[index]);
    taken.truncated.push_back(from.truncated[index]);
    target.num_truncated += from.truncated[index] ? 1 : 0;
  }
  return taken;
}

struct Partition {
  std::vector<size_t> out, stay;  ///< ascending
};

Partition choose_rows(size_t num_rows, double fraction, uint64_t seed) {
  if (!(fraction > 0.0 && fraction < 1.0)) {
    throw ConfigError("data.validation_fraction is " + std::to_string(fraction) +
                      ", expected more than 0 and less than 1");
  }
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
  Partition rows{{order.begin(), middle}, {middle, order.end()}};
  std::sort(rows.out.begin(), rows.out.end());
  std::sort(rows.stay.begin(), rows.stay.end());
  return rows;
}

}  // namespace

std::string TextDataset::place(int64_t row) const {
  const auto index = static_cast<size_t>(row);
  const std::string file = files.at(file_index.at(index)).string();
  return lines[index] > 0 ? file + ":" + std::to_string(lines[index]) : file;
}

RowStream::RowStream(const std::vector<std::filesystem::path>& files, const DataConfig& config,
                     LabelPresence labels, std::optional<int64_t> max_rows)
    : files_(files), config_(config), labels_(labels), rows_left_(max_rows.value_or(INT64_MAX)) {
  if (files.empty())
    throw DataError("no rows: no data file was given, expected at least one; set data.train");
}

bool RowStream::read(TextDataset& rows, size_t max_rows, size_t max_bytes) {
  const size_t before = rows.lines.size();
  size_t bytes = 0;
  while (rows.lines.size() - before < max_rows && bytes < max_bytes && rows_left_ > 0) {
    if (!reader_) {
      if (next_file_ == files_.size()) break;
      reader_ = open_rows(files_[next_file_++], config_, labels_);
      rows_of_file_ = 0;
    }
    if (!reader_->next(row_)) {
      finish_file(rows);
      continue;
    }
    bytes += row_.text.size() + (row_.text_pair ? row_.text_pair->size() : 0);
    add_row(rows);
    --rows_left_;
    if (++rows_of_file_ % kRowsBetweenPolls == 0) throw_if_stop_requested();
  }
  if (rows_left_ == 0 && reader_) finish_file(rows);
  return rows.lines.size() > before;
}

void RowStream::finish_file(TextDataset& rows) {
  rows.num_replaced += reader_->num_replaced_rows();
  reader_.reset();
  if (rows_of_file_ > 0) return;
  throw_data_error(files_[next_file_ - 1], 0,
                   "no rows, expected at least one (a header alone is not enough); check the file");
}

/// Pairs and labels exist from the first row that has one.
void RowStream::add_row(TextDataset& rows) {
  const auto& file = reader_->file();
  if (rows.files.empty() || rows.files.back().native() != file.native()) rows.files.push_back(file);
  if (row_.text_pair || !rows.pairs.empty()) {
    rows.pairs.resize(rows.texts.size());
    rows.pairs.push_back(std::move(row_.text_pair).value_or(""));
  }
  if (row_.label || !rows.labels.empty()) {
    rows.labels.resize(rows.lines.size());
    rows.labels.push_back(row_.label.value_or(""));
  }
  rows.texts.push_back(std::move(row_.text));
  rows.file_index.push_back(static_cast<uint32_t>(rows.files.size() - 1));
  rows.lines.push_back(row_.line);
}

TextDataset read_dataset(const std::vector<std::filesystem::path>& files, const DataConfig& config,
                         LabelPresence labels, std::optional<int64_t> max_rows) {
  RowStream stream(files, config, labels, max_rows);
  TextDataset rows;
  while (stream.read(rows, SIZE_MAX, SIZE_MAX)) {
  }
  return rows;
}

TextDataset split_off(TextDataset& train, double fraction, uint64_t seed) {
  const Partition rows = choose_rows(static_cast<size_t>(train.num_rows()), fraction, seed);
  TextDataset validation = take_rows(train, rows.out);
  const int64_t num_replaced = train.num_replaced;
  train = take_rows(train, rows.stay);
  train.num_replaced = num_replaced;
  return validation;
}

EncodedRows split_off(EncodedRows& train, double fraction, uint64_t seed) {
  const Partition rows = choose_rows(static_cast<size_t>(train.rows.num_rows()), fraction, seed);
  EncodedRows validation = take_encoded(train, rows.out);
  const int64_t num_replaced = train.rows.num_replaced;
  train = take_encoded(train, rows.stay);
  train.rows.num_replaced = num_replaced;
  return validation;
}

}  // namespace finetune
