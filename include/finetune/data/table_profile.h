#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "finetune/config/run_config.h"

namespace finetune {

/// How often each value occurs, of the first `kMostValues` different ones.
class ValueCounts {
 public:
  static constexpr size_t kMostValues = 5'000;
  static constexpr size_t kLongestValue = 200;  ///< bytes; longer ones are counted by their beginning

  void add(std::string_view value);
  /// Whether there were more different values than are counted.
  bool overflowed() const { return overflowed_; }
  size_t distinct() const { return counts_.size(); }
  /// Values and counts, the most frequent first; equal counts in byte order.
  std::vector<std::pair<std::string, int64_t>> sorted() const;
  int64_t count(std::string_view value) const;

 private:
  std::unordered_map<std::string, int64_t> counts_;
  bool overflowed_ = false;
};

/// What one column of a data file holds.
struct ColumnProfile {
  std::string name;  ///< empty where the file does not name its columns
  size_t index = 0;

  int64_t empty = 0;  ///< rows without a value
  int64_t strings = 0;
  int64_t numbers = 0;    ///< values that are numbers, quoted or not
  int64_t fractions = 0;  ///< numbers that are not whole
  int64_t booleans = 0;
  int64_t lists = 0;
  int64_t others = 0;  ///< objects, lists of lists
  int64_t bytes = 0;   ///< of all strings
  int64_t words = 0;   ///< parts between blanks, of all strings
  ValueCounts values;  ///< of scalars, as text

  int64_t list_items = 0;
  int64_t list_whole_numbers = 0;
  int64_t list_words = 0;  ///< parts between blanks, of all items
  ValueCounts list_values;

  /// For each of `kSeparators`: the values that hold it, and the parts that it separates.
  static constexpr std::string_view kSeparators = ",;|";
  int64_t separated[3] = {};
  ValueCounts parts[3];

  int64_t present() const { return strings + numbers + booleans + lists + others; }
  double mean_words() const {
    return strings == 0 ? 0 : static_cast<double>(words) / static_cast<double>(strings);
  }
};

/// What a data file holds, by its first `kMostRows` rows: how it is written, and each column.
struct TableProfile {
  static constexpr int64_t kMostRows = 200'000;

  std::filesystem::path path;
  DataFormat format = DataFormat::kCsv;  ///< never kAuto
  std::optional<char> delimiter;         ///< where it is not the format's own
  bool has_header = true;                ///< false: columns have numbers
  int64_t num_rows = 0;
  bool whole = true;  ///< false: there are more rows
  std::vector<ColumnProfile> columns;
  /// [C][C] rows in which both columns hold lists of one length.
  std::vector<std::vector<int64_t>> same_length;

  const ColumnProfile* find(const ColumnName& column) const;
  /// The names of the columns, or their numbers.
  std::vector<std::string> names() const;
};

/// Reads a CSV, TSV, JSONL or CoNLL file, or a folder of classes. Memory is bounded whatever the size of the
/// file. Of CoNLL the columns of its lines are profiled, of a folder the texts and the classes. `format` and
/// `delimiter` of `config` are kept where they are set, else found out. Throws `DataError`.
TableProfile profile_table(const std::filesystem::path& path, const DataConfig& config);

}  // namespace finetune
