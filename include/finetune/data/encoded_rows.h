#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "finetune/data/encoded_dataset.h"

namespace finetune {

/// Rows of files, encoded as they were read, before their labels have ids: labels may be learned from rows,
/// and rows may be held out, first.
struct EncodedRows {
  TextDataset rows;             ///< labels and places; the texts are gone
  EncodedDataset dataset;       ///< without labels and fingerprint
  std::vector<bool> truncated;  ///< [R] lost tokens to max_length
};

/// `read_dataset` and `encode_dataset` in one, with no more than a few megabytes of text in memory at a time.
/// Throws as they do; of rows that cannot be encoded the first is named, unless the file cannot be read near
/// it.
EncodedRows encode_files(const std::vector<std::filesystem::path>& files, const DataConfig& config,
                         LabelPresence labels, std::optional<int64_t> max_rows, const Tokenizer& tokenizer,
                         const RowOptions& options, int threads);

/// As `split_off` for text: the same texts, each with all its windows.
EncodedRows split_off(EncodedRows& train, double fraction, uint64_t seed, bool stratify);

/// Gives the rows' labels their ids, as `encode_dataset` does. Throws as it does.
EncodedDataset with_labels(EncodedRows rows, const LabelMap& labels, int64_t ignore_index = -100);

}  // namespace finetune
