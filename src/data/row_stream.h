#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "finetune/data/encoded_dataset.h"

namespace finetune {

/// The rows of several files, or the first of them, a piece at a time.
class RowStream {
 public:
  /// `files` and `config` must outlive the stream. Throws `DataError` where there is no file.
  RowStream(const std::vector<std::filesystem::path>& files, const DataConfig& config, LabelPresence labels,
            std::optional<int64_t> max_rows);

  /// Appends the next rows: at most `max_rows`, and none once they hold `max_bytes` of text. False where
  /// there were none left. `rows` may have lost its texts (and pairs) since the last call; the rest must be
  /// kept. Throws as `read_dataset`.
  bool read(TextDataset& rows, size_t max_rows, size_t max_bytes);

 private:
  void finish_file(TextDataset& rows);

  const std::vector<std::filesystem::path>& files_;
  const DataConfig& config_;
  LabelPresence labels_;
  int64_t rows_left_;
  size_t next_file_ = 0;
  int64_t rows_of_file_ = 0;
  std::unique_ptr<RowReader> reader_;
  Row row_;
};

}  // namespace finetune
