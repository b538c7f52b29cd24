#include "row_texts.h"

#include <vector>

#include "finetune/core/error.h"
#include "finetune/core/log.h"
#include "finetune/data/encoded_dataset.h"

namespace finetune {
namespace {

/// The numbers, among all rows of the training files, of those that were held out.
std::vector<int64_t> held_out_rows(const RunConfig& config, int64_t num_rows) {
  TextDataset all;  // labels, and the rows' numbers in place of their lines
  all.configure(config.data);
  for (const auto& file : config.data.train) {
    const auto reader = open_rows(file, config.data, LabelPresence::kOptional);
    for (Row row; all.num_rows() < num_rows && reader->next(row);) {
      Row number;
      number.label = std::move(row.label);
      number.line = all.num_rows();
      if (all.label_shape == LabelShape::kClass) {
        all.push_back(std::move(number), file);
      } else {
        all.lines.push_back(number.line);
      }
    }
  }
  return split_off(all, config.data.validation_fraction, config.seed, config.data.stratify).lines;
}

/// Rows of files one after the other, by their number among all.
std::map<int64_t, FoundRow> pick_rows(const std::vector<std::filesystem::path>& files,
                                      const DataConfig& config, const std::set<int64_t>& numbers) {
  std::map<int64_t, FoundRow> found;
  int64_t number = 0;
  for (const auto& file : files) {
    const auto reader = open_rows(file, config, LabelPresence::kOptional);
    for (Row row; found.size() < numbers.size() && reader->next(row); ++number) {
      if (numbers.contains(number)) found.emplace(number, FoundRow{row, reader->file()});
    }
  }
  return found;
}

}  // namespace

std::map<int64_t, FoundRow> read_rows_again(const RunConfig& config, const std::string& split,
                                            const std::string& name, int64_t num_train, int64_t num_rows,
                                            const std::set<int64_t>& numbers) {
  if (numbers.empty()) return {};
  try {
    const auto& files = split == "test" ? config.data.test : config.data.validation;
    if (!files.empty()) {
      for (const auto& file : files) {
        if (files.size() == 1 || file.filename() == name) return pick_rows({file}, config.data, numbers);
      }
      return {};
    }
    const std::vector<int64_t> origin = held_out_rows(config, num_train + num_rows);
    std::map<int64_t, int64_t> number_of;  // in the training files -> in the split
    std::set<int64_t> wanted;
    for (const int64_t number : numbers) {
      const int64_t there = origin.at(static_cast<size_t>(number));
      number_of[there] = number;
      wanted.insert(there);
    }
    std::map<int64_t, FoundRow> found;
    for (auto& [there, row] : pick_rows(config.data.train, config.data, wanted))
      found.emplace(number_of.at(there), std::move(row));
    return found;
  } catch (const DataError& error) {
    spdlog::warn("report.html shows no texts of {}: {}", name, error.what());
    return {};
  }
}

}  // namespace finetune
