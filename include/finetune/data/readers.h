#pragma once

#include <filesystem>
#include <memory>

#include "finetune/config/run_config.h"
#include "finetune/data/row_reader.h"

namespace finetune {

// The readers behind `open_rows`, one a file format. They throw as `RowReader` does.

/// CSV, TSV and the like. Every record must have as many fields as the first.
std::unique_ptr<RowReader> open_delimited(const std::filesystem::path& path, const DataConfig& config,
                                          LabelPresence labels, char delimiter);

/// One JSON object a line. Texts are strings; labels may also be numbers or booleans, and become their JSON
/// text.
std::unique_ptr<RowReader> open_jsonl(const std::filesystem::path& path, const DataConfig& config,
                                      LabelPresence labels);

/// One word a line with its columns between blanks or tabs, an empty line after a sentence; each sentence is
/// a row. The word is column 0 and the tag the last one unless `data.text` and `data.label` are numbers.
/// Comments before a sentence and `-DOCSTART-` lines are passed over; tags in IOB1 are given in IOB2.
std::unique_ptr<RowReader> open_conll(const std::filesystem::path& path, const DataConfig& config,
                                      LabelPresence labels);

/// A directory of one sub-directory a class, each file one text. Sub-directories and files come in byte order
/// of their names; hidden ones are passed over.
std::unique_ptr<RowReader> open_folder(const std::filesystem::path& path, const DataConfig& config);

}  // namespace finetune
