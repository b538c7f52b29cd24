#include "finetune/data/row_reader.h"

#include <system_error>

#include "data_file_format.h"
#include "finetune/core/error.h"
#include "finetune/core/text.h"
#include "finetune/data/encoded_dataset.h"
#include "finetune/data/message.h"
#include "finetune/data/readers.h"
#include "finetune/data/text_source.h"

namespace finetune {
namespace {

namespace fs = std::filesystem;

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

}  // namespace

std::unique_ptr<RowReader> open_rows(const fs::path& path, const DataConfig& config, LabelPresence labels) {
  const DataFormat format = data_file_format(path, config);
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
    case DataFormat::kText:
      refuse_items(path, config);
      return open_lines(path, config.encoding);
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
