#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "finetune/config/run_config.h"
#include "finetune/core/host_array.h"
#include "finetune/core/string_column.h"
#include "finetune/data/label_map.h"
#include "finetune/data/row_reader.h"
#include "finetune/tokenizer/tokenizer.h"

namespace finetune {

/// How texts become rows.
struct RowOptions : EncodeOptions {
  /// Tokens that neighbouring windows of a long text share; unset: what is too long is cut off.
  std::optional<int64_t> stride = {};
};

/// All rows of a split, encoded, on the host: one flat arena of tokens, ragged.
struct EncodedDataset {
  HostArray<int32_t> input_ids;    ///< [T] every token of every row, special tokens included
  HostArray<int64_t> row_offsets;  ///< [R + 1] row r is input_ids[row_offsets[r] .. row_offsets[r + 1])
  HostArray<int32_t>
      second_segments;        ///< [R] first position in the row whose token type is 1 (its length: none)
  HostArray<int64_t> labels;  ///< [R], or [L] where items are labelled: class ids, or `ignore_index`; empty
                              ///< where the split has no labels
  HostArray<float> values;    ///< [R, W] labels that are numbers, 0 or 1 a class, or undefined; else empty
  HostArray<int64_t> target_offsets;    ///< [R + 1] the items of row r; empty where rows are labelled
  HostArray<int32_t> target_positions;  ///< [L] each item's token in its row; -1 where it has none
  HostArray<int64_t>
      text_offsets;           ///< [D + 1] the rows that are windows of text d; empty: each text is a row
  int64_t num_truncated = 0;  ///< rows that lost tokens to max_length
  int64_t num_replaced = 0;   ///< rows with bytes that were not UTF-8, replaced
  std::string fingerprint;    ///< hash over ids, offsets and labels

  /// Every array by name, for what treats all of them alike.
  template <typename Self, typename Visitor>
  static void visit_arrays(Self& self, Visitor visit) {
    visit("input_ids", self.input_ids);
    visit("row_offsets", self.row_offsets);
    visit("second_segments", self.second_segments);
    visit("labels", self.labels);
    visit("values", self.values);
    visit("target_offsets", self.target_offsets);
    visit("target_positions", self.target_positions);
    visit("text_offsets", self.text_offsets);
  }

  int64_t num_rows() const { return static_cast<int64_t>(row_offsets.empty() ? 0 : row_offsets.size() - 1); }
  int64_t num_texts() const {
    return text_offsets.empty() ? num_rows() : static_cast<int64_t>(text_offsets.size() - 1);
  }
  /// Items that have no token.
  int64_t num_lost_items() const { return std::count(target_positions.begin(), target_positions.end(), -1); }
  int64_t length(int64_t row) const {
    return row_offsets[static_cast<size_t>(row) + 1] - row_offsets[static_cast<size_t>(row)];
  }
};

/// What in a row has a label of its own.
enum class ItemKind { kNone, kWords, kFields, kTokenPositions, kCharacterPositions };

ItemKind item_kind(const DataConfig& config);

/// Rows of one or more files, as text.
struct TextDataset {
  std::vector<std::string> texts;
  std::vector<std::string> pairs;      ///< empty, or one a row
  StringColumn labels;                 ///< empty, or one a row; "" for a row without
  std::vector<int64_t> label_offsets;  ///< [R + 1] a row's part of `labels`; empty where rows have one each
  std::vector<std::vector<std::string>> items;  ///< empty, or a row's words or fields
  std::vector<std::vector<int64_t>> positions;  ///< empty, or a row's places in its text
  ItemKind item_kind = ItemKind::kNone;
  LabelShape label_shape = LabelShape::kClass;
  std::string label_separator;
  std::vector<int64_t> lines;        ///< first line of each row in its file; 0 where a file is a row
  std::vector<uint32_t> file_index;  ///< into `files`
  std::vector<std::filesystem::path> files;
  int64_t num_replaced = 0;

  int64_t num_rows() const { return static_cast<int64_t>(lines.size()); }
  /// Takes what decides the parts of its rows.
  void configure(const DataConfig& config);
  void push_back(Row row, const std::filesystem::path& file);
  /// A row's part of `labels`, where there are any.
  std::pair<size_t, size_t> label_range(int64_t row) const;

  /// "train.csv:17" (the path as it was given), for messages.
  std::string place(int64_t row) const;

 private:
  void add_labels(const Row& row);
};

/// Reads whole files, or their first `max_rows` rows together. Throws `DataError`, also for a file without a
/// row, and `Interrupted`.
TextDataset read_dataset(const std::vector<std::filesystem::path>& files, const DataConfig& config,
                         LabelPresence labels, std::optional<int64_t> max_rows = std::nullopt);

/// Moves `fraction` of the texts (rounded; at least one, and at least one stays) out of `train` and returns
/// them, order kept. Which ones depends on `seed`, their number and, with `stratify`, their classes: each
/// class gives its share (largest remainders first), and one that has a single text keeps it. Where texts
/// have other labels than one class, `stratify` changes nothing. Throws `DataError` where there are fewer
/// than two texts, and `ConfigError` for a fraction outside (0, 1).
TextDataset split_off(TextDataset& train, double fraction, uint64_t seed, bool stratify);

/// Encodes all rows on `threads` threads; the result does not depend on their number. A row without a label
/// in a split that has labels is given `ignore_index`. Throws `DataError` for a label that `labels` does not
/// have (file, line, value, known labels), and for a row that cannot be truncated as asked (with its place):
/// of several such rows always the first. Throws `Interrupted`.
EncodedDataset encode_dataset(const TextDataset& rows, const Tokenizer& tokenizer, const RowOptions& options,
                              const LabelMap& labels, int threads, int64_t ignore_index = -100);

}  // namespace finetune
