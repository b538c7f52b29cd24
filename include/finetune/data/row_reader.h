#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "finetune/config/run_config.h"

namespace finetune {

/// One row of a data file, as text. Strings are UTF-8.
struct Row {
  std::string text;
  std::optional<std::string> text_pair;
  std::optional<std::string> label;
  std::vector<std::string> items;  ///< words, or fields that follow the text
  std::vector<int64_t> positions;  ///< places in the text
  std::optional<std::vector<std::string>>
      labels;        ///< where a row has several: of each item, or all that hold
  int64_t line = 0;  ///< of its first byte, from 1; for `folder`, 0
};

/// Whether a reader must find a label in each row.
enum class LabelPresence { kRequired, kOptional };

/// Reads rows one at a time, with memory bounded by the longest row.
class RowReader {
 public:
  virtual ~RowReader() = default;

  /// The next row into `row` (its strings' memory is reused); false at the end.
  /// Throws `DataError` naming file, line, what was found, what was expected and the remedy.
  virtual bool next(Row& row) = 0;

  /// The file that the last row came from (in `folder` format, the text file).
  virtual const std::filesystem::path& file() const = 0;

  /// Rows in which `utf-8-replace` replaced bytes so far.
  virtual int64_t num_replaced_rows() const { return 0; }
};

/// Opens a data file (or, for `folder`, a directory with one sub-directory a class); `-` is the standard
/// input. The format is taken from the name where it is `auto`. Throws `DataError` (missing file, empty file,
/// no such column, ...).
///
/// `header: auto`: the first row is a header where a configured column name occurs in it, or where a column
/// that must be there is configured by name. Where columns are configured by number, it is a header only if
/// it names one of them as data sets usually do (`text`, `sentence1`, `label`, `category`, ...); which it was
/// is logged.
std::unique_ptr<RowReader> open_rows(const std::filesystem::path& path, const DataConfig& config,
                                     LabelPresence labels);

/// Opens plain text: every line is one text, empty ones too. An empty file has no rows and is no error.
std::unique_ptr<RowReader> open_lines(const std::filesystem::path& path, TextEncoding encoding);

/// The same where every line is a list of words between blanks.
std::unique_ptr<RowReader> open_word_lines(const std::filesystem::path& path, TextEncoding encoding);

}  // namespace finetune
