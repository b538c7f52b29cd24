#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "finetune/core/error.h"
#include "finetune/core/file.h"
#include "finetune/core/json.h"
#include "finetune/data/row_reader.h"

namespace finetune::test {

/// A folder of its own for one test, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "finetune-data-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  std::filesystem::path write(const std::string& name, std::string_view content) const {
    const std::filesystem::path file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
    return file;
  }

 private:
  std::filesystem::path path_;
};

inline ColumnName by_name(std::string name) { return ColumnName{std::move(name), {}}; }
inline ColumnName by_number(size_t index) { return ColumnName{std::to_string(index), index}; }

inline std::vector<Row> read_rows(RowReader& reader) {
  std::vector<Row> rows;
  Row row;
  while (reader.next(row)) rows.push_back(row);
  return rows;
}

inline std::vector<Row> read_rows(const std::filesystem::path& path, const DataConfig& config = {},
                                  LabelPresence labels = LabelPresence::kRequired) {
  return read_rows(*open_rows(path, config, labels));
}

/// Texts and labels of a file, as pairs.
inline std::vector<std::vector<std::string>> read_pairs(const std::filesystem::path& path,
                                                        const DataConfig& config = {}) {
  std::vector<std::vector<std::string>> pairs;
  for (const Row& row : read_rows(path, config)) pairs.push_back({row.text, row.label.value_or("<none>")});
  return pairs;
}

/// The message of the DataError that reading the whole file throws; empty where it throws none.
inline std::string read_error(const std::filesystem::path& path, const DataConfig& config = {},
                              LabelPresence labels = LabelPresence::kRequired) {
  try {
    read_rows(path, config, labels);
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

inline std::filesystem::path case_folder(const std::string& name) {
  return std::filesystem::path(FINETUNE_TEST_DATA) / "cases" / name;
}

inline Json expected_of_case(const std::string& name) {
  return Json::parse(read_file(case_folder(name) / "expected.json"));
}

}  // namespace finetune::test
