#include "finetune/data/row_reader.h"

#include <algorithm>
#include <cctype>
#include <system_error>

#include "finetune/core/error.h"
#include "finetune/core/text.h"
#include "finetune/data/encoded_dataset.h"
#include "finetune/data/message.h"
#include "finetune/data/readers.h"
#include "finetune/data/text_source.h"

namespace finetune {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostNamesListed = 10'000;  // a folder may hold millions

std::string lower_extension(const fs::path& path) {
  std::string extension = path.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension;
}

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

DataFormat format_by_name(const fs::path& path, const DataConfig& config) {
  const std::string extension = lower_extension(path);
  if (extension == ".csv") return DataFormat::kCsv;
  if (extension == ".tsv" || extension == ".tab") return DataFormat::kTsv;
  if (extension == ".conll" || extension == ".iob" || extension == ".iob2" || extension == ".bio")
    return DataFormat::kConll;
  if (extension == ".jsonl" || extension == ".ndjson" || extension == ".json") return DataFormat::kJsonl;
  if (config.delimiter) return DataFormat::kCsv;
  if (extension == ".parquet") {
    throw_data_error(path, 0,
                     "Parquet is not read; convert it: python -c \"import pandas; "
                     "pandas.read_parquet('" +
                         path.string() + "').to_csv('" + fs::path(path).replace_extension(".csv").string() +
                         "', index=False)\"");
  }
  throw_data_error(path, 0,
                   "the format cannot be told from the name (" +
                       (extension.empty() ? std::string("no extension") : "extension " + shown(extension)) +
                       "), expected .csv, .tsv, .jsonl, .conll or a folder a class; set data.format");
}

char delimiter_for(const DataConfig& config, char fallback) {
  const char delimiter = config.delimiter.value_or(fallback);
  if (delimiter == '"' || delimiter == '\n' || delimiter == '\r' ||
      static_cast<unsigned char>(delimiter) >= 0x80) {
    throw ConfigError("data.delimiter: " + shown(std::string_view(&delimiter, 1)) +
                      " cannot separate fields, expected a character such as ',', ';' or '\\t'");
  }
  return delimiter;
}

class PlainLineReader : public RowReader {
 public:
  PlainLineReader(const fs::path& path, TextEncoding encoding, bool words)
      : source_(path, encoding), lines_(source_), words_(words) {}

  bool next(Row& row) override {
    std::string_view line;
    if (!lines_.next(line)) return false;
    num_replaced_rows_ += lines_.take_replaced();
    row.items.clear();
    if (words_) {
      row.items = split_at_blanks(line);
    } else {
      row.text.assign(line);
    }
    row.text_pair.reset();
    row.label.reset();
    row.line = lines_.number();
    return true;
  }

  const fs::path& file() const override { return source_.path(); }
  int64_t num_replaced_rows() const override { return num_replaced_rows_; }

 private:
  TextSource source_;
  LineScanner lines_;
  bool words_;
  int64_t num_replaced_rows_ = 0;
};

/// Lists have no place in a table's fields, or in a folder's texts.
void refuse_items(const fs::path& path, const DataConfig& config) {
  if (item_kind(config) == ItemKind::kNone) return;
  throw_data_error(
      path, 0,
      "this format holds no lists of words, fields or positions; write JSONL (or CoNLL, for words "
      "with tags), or set data.format");
}

std::unique_ptr<RowReader> open_plain(const fs::path& path, TextEncoding encoding, bool words);

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

}  // namespace

std::unique_ptr<RowReader> open_rows(const fs::path& path, const DataConfig& config, LabelPresence labels) {
  require_file(path);
  DataFormat format = config.format;
  std::error_code error;
  const bool is_folder = path != "-" && fs::is_directory(path, error);
  if (is_folder && format != DataFormat::kAuto && format != DataFormat::kFolder) {
    throw_data_error(path, 0,
                     "is a folder, expected a file; name a file in it, or set data.format to \"folder\" for "
                     "one folder a class");
  }
  if (!is_folder && format == DataFormat::kFolder) {
    throw_data_error(
        path, 0,
        "is a file, but data.format is \"folder\", one sub-directory a class; set data.format to \"auto\"");
  }
  if (format == DataFormat::kAuto) format = is_folder ? DataFormat::kFolder : format_by_name(path, config);
  switch (format) {
    case DataFormat::kAuto:
    case DataFormat::kCsv:
      refuse_items(path, config);
      return open_delimited(path, config, labels, delimiter_for(config, ','));
    case DataFormat::kTsv:
      refuse_items(path, config);
      return open_delimited(path, config, labels, delimiter_for(config, '\t'));
    case DataFormat::kJsonl:
      return open_jsonl(path, config, labels);
    case DataFormat::kConll:
      if (item_kind(config) != ItemKind::kWords) {
        throw_data_error(
            path, 0,
            "CoNLL files hold words with tags; set task.type to \"token_classification\" without "
            "data.fields and data.positions, or use another file");
      }
      return open_conll(path, config, labels);
    case DataFormat::kFolder:
      refuse_items(path, config);
      return open_folder(path, config);
  }
  return nullptr;
}

std::unique_ptr<RowReader> open_lines(const fs::path& path, TextEncoding encoding) {
  return open_plain(path, encoding, /*words=*/false);
}

std::unique_ptr<RowReader> open_word_lines(const fs::path& path, TextEncoding encoding) {
  return open_plain(path, encoding, /*words=*/true);
}

namespace {

std::unique_ptr<RowReader> open_plain(const fs::path& path, TextEncoding encoding, bool words) {
  require_file(path);
  std::error_code error;
  if (path != "-" && fs::is_directory(path, error)) {
    throw_data_error(path, 0, "is a folder, expected a file with one text a line; name a file in it");
  }
  return std::make_unique<PlainLineReader>(path, encoding, words);
}

}  // namespace

}  // namespace finetune
