#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <string_view>

#include "finetune/core/error.h"
#include "finetune/core/signals.h"
#include "finetune/core/text.h"
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
  move_column(from.items, taken.items);
  move_column(from.positions, taken.positions);
  taken.item_kind = from.item_kind;
  taken.label_shape = from.label_shape;
  taken.label_separator = from.label_separator;
  if (from.labels.empty()) return taken;
  if (!from.label_offsets.empty()) taken.label_offsets.push_back(0);
  for (const size_t index : indices) {
    const auto [begin, end] = from.label_range(static_cast<int64_t>(index));
    for (size_t i = begin; i < end; ++i) taken.labels.push_back(from.labels[i]);
    if (!from.label_offsets.empty()) taken.label_offsets.push_back(static_cast<int64_t>(taken.labels.size()));
  }
  return taken;
}

/// The rows of the texts at `texts`.
std::vector<size_t> rows_of(const EncodedDataset& dataset, const std::vector<size_t>& texts) {
  if (dataset.text_offsets.empty()) return texts;
  std::vector<size_t> rows;
  for (const size_t text : texts) {
    for (int64_t row = dataset.text_offsets[text]; row < dataset.text_offsets[text + 1]; ++row) {
      rows.push_back(static_cast<size_t>(row));
    }
  }
  return rows;
}

/// The encoded tokens of the texts at `texts`.
EncodedRows take_encoded(EncodedRows& from, const std::vector<size_t>& texts) {
  EncodedRows taken;
  taken.rows = take_rows(from.rows, texts);
  const EncodedDataset& source = from.dataset;
  EncodedDataset& target = taken.dataset;
  const std::vector<size_t> indices = rows_of(source, texts);
  if (!source.text_offsets.empty()) {
    target.text_offsets.push_back(0);
    for (const size_t text : texts) {
      target.text_offsets.push_back(target.text_offsets.back() + source.text_offsets[text + 1] -
                                    source.text_offsets[text]);
    }
  }
  target.row_offsets.push_back(0);
  for (const size_t index : indices) {
    const int32_t* ids = source.input_ids.data();
    target.input_ids.append(ids + source.row_offsets[index], ids + source.row_offsets[index + 1]);
    target.row_offsets.push_back(static_cast<int64_t>(target.input_ids.size()));
    target.second_segments.push_back(source.second_segments[index]);
    taken.truncated.push_back(from.truncated[index]);
    target.num_truncated += from.truncated[index] ? 1 : 0;
  }
  if (source.target_offsets.empty()) return taken;
  target.target_offsets.push_back(0);
  for (const size_t index : indices) {
    const int32_t* positions = source.target_positions.data();
    target.target_positions.append(positions + source.target_offsets[index],
                                   positions + source.target_offsets[index + 1]);
    target.target_offsets.push_back(static_cast<int64_t>(target.target_positions.size()));
  }
  return taken;
}

struct Partition {
  std::vector<size_t> out, stay;  ///< ascending
};

/// How many of its rows each group gives, `count` of all: in proportion, the largest remainders rounded up,
/// and none its last one. Fewer than `count` where groups are that small.
std::vector<size_t> shares_of(const std::vector<std::vector<size_t>>& groups, size_t count, size_t num_rows) {
  std::vector<size_t> shares, by_remainder(groups.size());
  size_t given = 0;
  for (const auto& group : groups) {
    shares.push_back(std::min(group.size() * count / num_rows, group.size() - 1));
    given += shares.back();
  }
  std::iota(by_remainder.begin(), by_remainder.end(), size_t{0});
  std::stable_sort(by_remainder.begin(), by_remainder.end(), [&](size_t a, size_t b) {
    return groups[a].size() * count % num_rows > groups[b].size() * count % num_rows;
  });
  for (const size_t group : by_remainder) {
    if (given == count) break;
    if (shares[group] + 1 >= groups[group].size()) continue;
    ++shares[group];
    ++given;
  }
  return shares;
}

/// Rows by their class, classes in the order in which they appear; all in one group where rows have no one
/// class.
std::vector<std::vector<size_t>> groups_of(const TextDataset& rows, bool stratify) {
  std::vector<std::vector<size_t>> groups;
  std::map<std::string, size_t, std::less<>> group_of;
  const bool by_class = stratify && rows.label_shape == LabelShape::kClass && !rows.labels.empty();
  for (size_t row = 0; row < static_cast<size_t>(rows.num_rows()); ++row) {
    const auto label = by_class ? rows.labels[row] : std::string_view();
    const auto [found, is_new] = group_of.try_emplace(std::string(label), groups.size());
    if (is_new) groups.emplace_back();
    groups[found->second].push_back(row);
  }
  return groups;
}

Partition choose_rows(const TextDataset& rows_of_all, double fraction, uint64_t seed, bool stratify) {
  const auto num_rows = static_cast<size_t>(rows_of_all.num_rows());
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

  std::vector<std::vector<size_t>> groups = groups_of(rows_of_all, stratify);
  std::vector<size_t> shares = shares_of(groups, count, num_rows);
  if (std::accumulate(shares.begin(), shares.end(), size_t{0}) == 0) {  // no class has two texts
    groups = groups_of(rows_of_all, false);
    shares = {count};
  }
  const uint64_t stream = mix(seed);
  const auto rank = [&](size_t row) { return mix(stream ^ mix(row)); };
  Partition rows;
  for (size_t number = 0; number < groups.size(); ++number) {
    std::vector<size_t>& group = groups[number];
    const auto middle = group.begin() + static_cast<std::ptrdiff_t>(shares[number]);
    std::nth_element(group.begin(), middle, group.end(),
                     [&](size_t a, size_t b) { return std::pair(rank(a), a) < std::pair(rank(b), b); });
    rows.out.insert(rows.out.end(), group.begin(), middle);
    rows.stay.insert(rows.stay.end(), middle, group.end());
  }
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

std::pair<size_t, size_t> TextDataset::label_range(int64_t row) const {
  const auto index = static_cast<size_t>(row);
  if (label_offsets.empty()) return {index, index + 1};
  return {static_cast<size_t>(label_offsets[index]), static_cast<size_t>(label_offsets[index + 1])};
}

void TextDataset::configure(const DataConfig& config) {
  item_kind = finetune::item_kind(config);
  label_shape = config.label_shape;
  label_separator = config.label_separator;
}

/// Pairs and labels exist from the first row that has one.
void TextDataset::push_back(Row row, const std::filesystem::path& file) {
  if (files.empty() || files.back().native() != file.native()) files.push_back(file);
  if (row.text_pair || !pairs.empty()) {
    pairs.resize(texts.size());
    pairs.push_back(std::move(row.text_pair).value_or(""));
  }
  add_labels(row);
  if (item_kind == ItemKind::kWords || item_kind == ItemKind::kFields) items.push_back(std::move(row.items));
  if (item_kind >= ItemKind::kTokenPositions) positions.push_back(std::move(row.positions));
  texts.push_back(std::move(row.text));
  file_index.push_back(static_cast<uint32_t>(files.size() - 1));
  lines.push_back(row.line);
}

void TextDataset::add_labels(const Row& row) {
  if (label_shape == LabelShape::kNone) return;
  if (label_shape == LabelShape::kClass || label_shape == LabelShape::kValue) {
    if (!row.label && labels.empty()) return;
    labels.resize(lines.size());
    labels.push_back(row.label.value_or(""));
    return;
  }
  if (!row.label && !row.labels && labels.empty()) return;
  if (label_offsets.empty()) label_offsets.push_back(0);
  label_offsets.resize(lines.size() + 1, label_offsets.back());
  if (row.labels) {
    for (const std::string& label : *row.labels) labels.push_back(label);
  } else if (row.label) {
    for (const std::string& label : split_at(*row.label, label_separator)) labels.push_back(label);
  }
  label_offsets.push_back(static_cast<int64_t>(labels.size()));
}

ItemKind item_kind(const DataConfig& config) {
  if (config.fields) return ItemKind::kFields;
  if (config.positions) {
    return config.position_unit == PositionUnit::kTokens ? ItemKind::kTokenPositions
                                                         : ItemKind::kCharacterPositions;
  }
  return config.tokens ? ItemKind::kWords : ItemKind::kNone;
}

RowStream::RowStream(const std::vector<std::filesystem::path>& files, const DataConfig& config,
                     LabelPresence labels, std::optional<int64_t> max_rows)
    : files_(files), config_(config), labels_(labels), rows_left_(max_rows.value_or(INT64_MAX)) {
  if (files.empty())
    throw DataError("no rows: no data file was given, expected at least one; set data.train");
}

bool RowStream::read(TextDataset& rows, size_t max_rows, size_t max_bytes) {
  rows.configure(config_);
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
    for (const std::string& item : row_.items) bytes += item.size();
    rows.push_back(std::exchange(row_, {}), reader_->file());
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

TextDataset read_dataset(const std::vector<std::filesystem::path>& files, const DataConfig& config,
                         LabelPresence labels, std::optional<int64_t> max_rows) {
  RowStream stream(files, config, labels, max_rows);
  TextDataset rows;
  while (stream.read(rows, SIZE_MAX, SIZE_MAX)) {
  }
  return rows;
}

TextDataset split_off(TextDataset& train, double fraction, uint64_t seed, bool stratify) {
  const Partition rows = choose_rows(train, fraction, seed, stratify);
  TextDataset validation = take_rows(train, rows.out);
  const int64_t num_replaced = train.num_replaced;
  train = take_rows(train, rows.stay);
  train.num_replaced = num_replaced;
  return validation;
}

EncodedRows split_off(EncodedRows& train, double fraction, uint64_t seed, bool stratify) {
  const Partition rows = choose_rows(train.rows, fraction, seed, stratify);
  EncodedRows validation = take_encoded(train, rows.out);
  const int64_t num_replaced = train.rows.num_replaced;
  train = take_encoded(train, rows.stay);
  train.rows.num_replaced = num_replaced;
  return validation;
}

}  // namespace finetune
