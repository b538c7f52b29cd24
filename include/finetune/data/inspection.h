#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "finetune/config/run_config.h"
#include "finetune/core/json.h"
#include "finetune/data/row_reader.h"
#include "finetune/tokenizer/tokenizer.h"

namespace finetune {

/// Lengths of rows: in tokens, special ones included, where there is a tokenizer, else in words.
struct LengthReport {
  static constexpr std::array<int64_t, 4> kLimits{64, 128, 256, 512};

  bool in_tokens = false;
  int64_t rows = 0;
  double mean = 0;
  int64_t median = 0, p90 = 0, p95 = 0, p99 = 0, longest = 0;
  /// max_length and the rows that it would cut: `kLimits`, and the config's own.
  std::vector<std::pair<int64_t, int64_t>> longer_than;
  int64_t unknown = 0;  ///< tokens that the vocabulary does not have
  int64_t total = 0;    ///< tokens or words of all rows

  /// The smallest length that cuts no more than `share` of the rows.
  int64_t covering(double share) const;

  std::vector<int64_t> counts;  ///< [L] rows of each length; the last counts all that are longer
};

/// Labels of a split: classes and how often each occurs, or the spread of numbers.
struct LabelReport {
  bool are_numbers = false;
  int64_t unlabelled = 0;                               ///< rows
  std::vector<std::pair<std::string, int64_t>> counts;  ///< the most frequent first
  bool complete = true;                                 ///< false: there are more classes than were counted
  int64_t numbers = 0;
  double mean = 0, deviation = 0, lowest = 0, highest = 0;
  int64_t not_numbers = 0;
};

/// Two rows, as "train.csv:12".
struct RowCouple {
  std::string first, second;
};

/// Rows that occur more than once in a split. Texts are the same where they differ in blanks alone.
struct DuplicateReport {
  int64_t repeated = 0;     ///< rows whose text an earlier one has
  int64_t conflicting = 0;  ///< rows whose text another one has with another label
  std::vector<RowCouple> examples, conflicts;
};

/// Rows of one split whose text another split has, too.
struct Leak {
  std::string from, into;
  int64_t rows = 0;         ///< of `into`
  int64_t other_label = 0;  ///< of these, with another label
  std::vector<RowCouple> examples;
};

/// A row as a model sees it.
struct Sample {
  std::string place, text, text_pair, label;
  std::vector<std::string> tokens;  ///< empty without a tokenizer
};

struct SplitReport {
  std::string name;
  int64_t rows = 0;
  int64_t empty_texts = 0;
  int64_t replaced = 0;  ///< rows with bytes that are not UTF-8, replaced
  LengthReport lengths;
  LabelReport labels;
  DuplicateReport duplicates;
  std::vector<Sample> samples;
  std::vector<std::string> warnings;
};

struct InspectionReport {
  std::vector<SplitReport> splits;
  std::vector<Leak> leaks;
  std::vector<std::string> warnings;
  double compared = 1;  ///< share of the rows that duplicates and leaks were sought in
};

/// Looks at rows of one or more splits as they come by. Of a row it keeps a hash, its label's number and its
/// place, of at most `max_compared` rows; of more it keeps those whose hash is in a share of all hashes, so
/// that copies stay together.
class Inspection {
 public:
  struct Options {
    DataConfig data;
    LabelShape shape = LabelShape::kClass;
    const Tokenizer* tokenizer = nullptr;  ///< may be null; must outlive the inspection
    std::optional<int64_t> max_length;     ///< the config's own
    int64_t num_samples = 3;               ///< of each split
    size_t max_compared = size_t{2} << 20;
  };

  explicit Inspection(Options options) : options_(std::move(options)) {}

  /// Adds a file's rows, at most `max_rows`, to the split `name`; a split's files come one after the other.
  /// Throws as `RowReader`, and `Interrupted`.
  void add_file(const std::string& name, const std::filesystem::path& path,
                std::optional<int64_t> max_rows = std::nullopt);

  /// Call once.
  InspectionReport finish();

 private:
  struct Seen {
    uint64_t hash;
    uint32_t label;
    uint32_t line;
    uint16_t file;
    uint16_t split;
  };

  void add(const Row& row, uint16_t file);
  void measure(const Row& row, LengthReport& lengths);
  void count_labels(const Row& row, LabelReport& report);
  void keep_sample(const Row& row, uint16_t file);
  void remember(const Row& row, uint16_t file);
  void thin_out();
  void compare(InspectionReport& report);
  void compare_group(const Seen* begin, const Seen* end, InspectionReport& report) const;
  Encoding encode(const Row& row) const;
  uint32_t label_number(const Row& row);
  std::string place(const Seen& seen) const;
  std::string place(uint16_t file, int64_t line) const;

  Options options_;
  std::vector<SplitReport> splits_;
  std::vector<std::unordered_map<std::string, int64_t>> label_counts_;  ///< of each split
  std::vector<double> sums_of_squares_;                                 ///< of each split's numbers
  std::vector<std::filesystem::path> files_;
  std::vector<Seen> seen_;
  uint64_t largest_hash_ = UINT64_MAX;  ///< rows of larger ones are not compared
  std::unordered_map<std::string, uint32_t> label_numbers_;
  std::optional<int32_t> unknown_id_;
  std::vector<int32_t> ids_;
};

/// What in the names and counts of classes looks like a mistake, a line each: the same name in another
/// spelling, a class of one row, a name that is the column's.
std::vector<std::string> suspicious_labels(const std::vector<std::pair<std::string, int64_t>>& counts,
                                           const std::string& column, bool are_tags);

Json to_json(const InspectionReport& report);

/// A page of text for people.
std::string to_text(const InspectionReport& report);

}  // namespace finetune
