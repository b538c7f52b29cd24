#include "data_file_format.h"

#include <algorithm>
#include <string>
#include <system_error>
#include <vector>

#include "finetune/core/text.h"
#include "finetune/data/message.h"
#include "foreign_format.h"

namespace finetune {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostNamesListed = 10'000;  // a folder may hold millions

[[noreturn]] void refuse_missing(const fs::path& path) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::error_code error;
  const fs::path shown_folder = fs::absolute(folder, error).lexically_normal();
  if (!fs::is_directory(folder, error)) {
    throw_data_error(
        path, 0, "no such file, and its folder " + shown_folder.string() + " does not exist; check the path");
  }
  std::vector<std::string> names;
  for (fs::directory_iterator entries(folder, error); !error && entries != fs::directory_iterator();
       entries.increment(error)) {
    if (names.size() < kMostNamesListed) names.push_back(entries->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  throw_data_error(path, 0,
                   "no such file; looked in " + shown_folder.string() + ", which holds " +
                       (names.empty() ? "nothing" : shown_list(names)) +
                       suggestion(path.filename().string(), names) + "; check the path");
}

/// By their names: what is in them tells a reader that is made to read them.
void refuse_foreign(const fs::path& path) {
  if (const auto foreign = foreign_format_by_name(path)) {
    throw_data_error(path, 0, foreign_format_message(*foreign, path));
  }
}

DataFormat format_by_name(const fs::path& path, const DataConfig& config) {
  const std::string extension = lower_ascii(path.extension().string());
  if (extension == ".csv") return DataFormat::kCsv;
  if (extension == ".tsv" || extension == ".tab") return DataFormat::kTsv;
  if (extension == ".conll" || extension == ".iob" || extension == ".iob2" || extension == ".bio")
    return DataFormat::kConll;
  if (extension == ".jsonl" || extension == ".ndjson" || extension == ".json") return DataFormat::kJsonl;
  if (config.delimiter) return DataFormat::kCsv;
  throw_data_error(path, 0,
                   "the format cannot be told from the name (" +
                       (extension.empty() ? std::string("no extension") : "extension " + shown(extension)) +
                       "), expected .csv, .tsv, .jsonl, .conll or a folder a class; set data.format");
}

}  // namespace

void require_file(const fs::path& path) {
  if (path == "-") return;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    if (error && error != std::errc::no_such_file_or_directory) {
      throw_data_error(path, 0, "cannot be opened: " + error.message());
    }
    refuse_missing(path);
  }
}

DataFormat data_file_format(const fs::path& path, const DataConfig& config) {
  require_file(path);
  DataFormat format = config.format;
  std::error_code error;
  const bool is_folder = path != "-" && fs::is_directory(path, error);
  if (is_folder && format != DataFormat::kAuto && format != DataFormat::kFolder) {
    throw_data_error(path, 0,
                     "is a folder, expected a file; name a file in it, or set data.format to \"folder\" for "
                     "one folder a class");
  }
  if (is_folder && fs::exists(path / "dataset_dict.json", error)) {
    throw_data_error(path, 0,
                     "holds several splits that Hugging Face's datasets saved, expected one; name one of the "
                     "folders in it");
  }
  if (!is_folder && format == DataFormat::kFolder) {
    throw_data_error(
        path, 0,
        "is a file, but data.format is \"folder\", one sub-directory a class; set data.format to \"auto\"");
  }
  if (format == DataFormat::kAuto && path != "-") refuse_foreign(path);
  const bool plain = config.label_shape == LabelShape::kNone && path.extension() == ".txt";
  if (format == DataFormat::kAuto && plain) format = DataFormat::kText;
  if (format == DataFormat::kAuto) format = is_folder ? DataFormat::kFolder : format_by_name(path, config);
  return format;
}

}  // namespace finetune
