#include <algorithm>
#include <string_view>

#include "finetune/core/log.h"
#include "finetune/data/delimited_parser.h"
#include "finetune/data/message.h"
#include "finetune/data/readers.h"
#include "finetune/data/text_source.h"
#include "usual_names.h"

namespace finetune {
namespace {

/// Finds the columns a config asks for in the first record of a file, and decides whether that is a header.
class ColumnFinder {
 public:
  ColumnFinder(const TextSource& source, const DelimitedParser::Record& first, const DataConfig& config,
               LabelPresence labels, char delimiter)
      : path_(source.path()),
        fields_(first.fields.begin(), first.fields.end()),
        line_(first.line),
        delimiter_(delimiter) {
    text_ = {&config.text, "data.text", true};
    label_ = {&config.label, "data.label", labels == LabelPresence::kRequired};
    if (config.text_pair) pair_ = {&*config.text_pair, "data.text_pair", true};
    has_header_ =
        config.header == HeaderMode::kAuto ? decide_header() : config.header == HeaderMode::kPresent;
  }

  bool has_header() const { return has_header_; }
  size_t text() const { return *find(text_); }
  std::optional<size_t> pair() const { return pair_.name == nullptr ? std::nullopt : find(pair_); }
  std::optional<size_t> label() const { return find(label_); }

 private:
  struct Wanted {
    const ColumnName* name = nullptr;
    const char* key = "";
    bool required = false;
  };

  bool decide_header() const {
    bool usual_name = false;
    for (const Wanted& column : {text_, label_, pair_}) {
      if (column.name == nullptr) continue;
      if (!column.name->index) {
        if (column.required || count(column.name->name) > 0) return true;
      } else if (*column.name->index < fields_.size()) {
        usual_name |= is_usual_name(fields_[*column.name->index], column.name == label_.name);
      }
    }
    spdlog::info("{}: columns are given by number; the first row is taken as {} (data.header says otherwise)",
                 path_.string(), usual_name ? "a header" : "data");
    return usual_name;
  }

  size_t count(const std::string& name) const {
    return static_cast<size_t>(std::count(fields_.begin(), fields_.end(), name));
  }

  std::optional<size_t> find(const Wanted& column) const {
    const ColumnName& name = *column.name;
    if (name.index) {
      if (*name.index < fields_.size()) return name.index;
      if (!column.required) return std::nullopt;
      throw_data_error(path_, line_,
                       std::string(column.key) + " is column " + std::to_string(*name.index) +
                           ", but the row has " + std::to_string(fields_.size()) +
                           " (numbered from 0): " + shown_list(fields_) + delimiter_hint(std::nullopt));
    }
    if (!has_header_) {
      if (!column.required) return std::nullopt;
      throw_data_error(path_, line_,
                       std::string(column.key) + " is the name " + shown(name.name) +
                           ", but data.header is false, so columns have numbers; set " + column.key +
                           " to a number from 0 to " + std::to_string(fields_.size() - 1));
    }
    switch (count(name.name)) {
      case 0:
        if (!column.required) return std::nullopt;
        refuse_missing(column);
      case 1:
        return static_cast<size_t>(std::find(fields_.begin(), fields_.end(), name.name) - fields_.begin());
      default:
        throw_data_error(path_, line_,
                         "column " + shown(name.name) + " twice, expected once; rename one, or set " +
                             column.key + " to a number from 0");
    }
  }

  [[noreturn]] void refuse_missing(const Wanted& column) const {
    const std::string& name = column.name->name;
    throw_data_error(path_, line_,
                     "column " + shown(name) + " not found; the first row has " +
                         std::to_string(fields_.size()) + (fields_.size() == 1 ? " field: " : " fields: ") +
                         shown_list(fields_) + suggestion(name, fields_) + delimiter_hint(name) + "; set " +
                         column.key + " to one of them, or to a number from 0 if the file has no header");
  }

  /// Names another delimiter under which the first row has the column, or more than one field where it has
  /// one now.
  std::string delimiter_hint(const std::optional<std::string>& name) const {
    for (const char candidate : {';', '\t', ',', '|'}) {
      if (candidate == delimiter_) continue;
      const bool splits_one = fields_.size() == 1 && fields_[0].find(candidate) != std::string::npos;
      const bool gives_name =
          name && std::any_of(fields_.begin(), fields_.end(), [&](const std::string& field) {
            return field.starts_with(*name + candidate) || field.ends_with(candidate + *name) ||
                   field.find(candidate + *name + candidate) != std::string::npos;
          });
      if (!splits_one && !gives_name) continue;
      const std::string mark = candidate == '\t' ? "\\t" : std::string(1, candidate);
      return "; '" + mark + "' looks like the delimiter: set data.delimiter to \"" + mark + "\"";
    }
    return "";
  }

  const std::filesystem::path& path_;
  std::vector<std::string> fields_;
  int64_t line_;
  char delimiter_;
  Wanted text_;
  Wanted label_;
  Wanted pair_;
  bool has_header_ = false;
};

class DelimitedReader : public RowReader {
 public:
  DelimitedReader(const std::filesystem::path& path, const DataConfig& config, LabelPresence labels,
                  char delimiter)
      : source_(path, config.encoding),
        parser_(source_, delimiter),
        label_required_(labels == LabelPresence::kRequired),
        several_labels_(config.label_shape == LabelShape::kClasses) {
    if (!source_.extend()) {
      throw_data_error(path, 0, "empty file, expected rows; check that it was written to the end");
    }
    if (!parser_.next(record_)) {
      throw_data_error(path, 0, "no rows, only empty lines; check that it is the right file");
    }
    const ColumnFinder columns(source_, record_, config, labels, delimiter);
    text_ = columns.text();
    pair_ = columns.pair();
    label_ = columns.label();
    num_columns_ = record_.fields.size();
    has_header_ = columns.has_header();
    record_pending_ = !has_header_;
  }

  bool next(Row& row) override {
    if (!record_pending_ && !parser_.next(record_)) return false;
    record_pending_ = false;
    if (record_.fields.size() != num_columns_) refuse_field_count();
    num_replaced_rows_ += record_.replaced;
    row.line = record_.line;
    row.text.assign(record_.fields[text_]);
    assign(row.text_pair, pair_);
    assign(row.label, label_);
    row.labels.reset();
    if (label_ && row.label->empty()) {
      if (several_labels_) {
        row.labels.emplace();  // no class holds
      } else if (label_required_) {
        throw_data_error(source_.path(), record_.line,
                         "the label is empty, expected a class; fill it in or remove the row");
      }
      row.label.reset();
    }
    return true;
  }

  const std::filesystem::path& file() const override { return source_.path(); }
  int64_t num_replaced_rows() const override { return num_replaced_rows_; }

 private:
  void assign(std::optional<std::string>& target, const std::optional<size_t>& column) const {
    if (!column) {
      target.reset();
    } else if (target) {
      target->assign(record_.fields[*column]);
    } else {
      target.emplace(record_.fields[*column]);
    }
  }

  [[noreturn]] void refuse_field_count() const {
    const size_t found = record_.fields.size();
    const std::string counts = std::to_string(found) + (found == 1 ? " field, " : " fields, ") +
                               (has_header_ ? "header has " : "the first row has ") +
                               std::to_string(num_columns_);
    std::string remedy = "; put a field that holds the delimiter into double quotes, or remove the row";
    const std::string_view only = record_.fields[0];
    if (record_.end_line > record_.line) {
      remedy = "; the row runs to line " + std::to_string(record_.end_line) +
               " because a quoted field has line breaks: is its closing quote missing?";
    } else if (found == 1 && only.find_first_not_of('\0') == std::string_view::npos) {
      remedy =
          "; the row is " + std::to_string(only.size()) + " NUL bytes: was the file cut off? Remove them";
    } else if (found < num_columns_) {
      remedy = "; add the missing fields, or remove the row";
    }
    throw_data_error(source_.path(), record_.line, counts + remedy);
  }

  TextSource source_;
  DelimitedParser parser_;
  DelimitedParser::Record record_;
  bool record_pending_ = false;  // the first record is a row, and is still to be returned
  bool has_header_ = false;
  bool label_required_;
  bool several_labels_;
  size_t num_columns_ = 0;
  size_t text_ = 0;
  std::optional<size_t> pair_;
  std::optional<size_t> label_;
  int64_t num_replaced_rows_ = 0;
};

}  // namespace

std::unique_ptr<RowReader> open_delimited(const std::filesystem::path& path, const DataConfig& config,
                                          LabelPresence labels, char delimiter) {
  return std::make_unique<DelimitedReader>(path, config, labels, delimiter);
}

}  // namespace finetune
