#include <algorithm>
#include <string_view>
#include <utility>

#include "finetune/core/text.h"
#include "finetune/data/message.h"
#include "finetune/data/readers.h"
#include "finetune/data/text_source.h"
#include "tag_scheme.h"

namespace finetune {
namespace {

/// The columns of a line: between tabs where the file has them, else between blanks.
std::vector<std::string> columns_of(std::string_view line, bool tabs) {
  return tabs ? split_at(line, "\t") : split_at_blanks(line);
}

class ConllReader : public RowReader {
 public:
  ConllReader(const std::filesystem::path& path, const DataConfig& config, LabelPresence labels)
      : source_(path, config.encoding),
        lines_(source_),
        word_(config.text.index.value_or(0)),
        tag_(config.label.index),
        tag_required_(labels == LabelPresence::kRequired) {
    if (!source_.extend()) {
      throw_data_error(
          path, 0, "empty file, expected a word and its tag a line; check that it was written to the end");
    }
  }

  bool next(Row& row) override {
    row.text.clear();
    row.items.clear();
    row.label.reset();
    row.labels.reset();
    std::vector<std::string> tags;
    std::string_view line;
    while (lines_.next(line)) {
      num_replaced_rows_ += lines_.take_replaced();
      if (is_blank(line) || line.starts_with("-DOCSTART-")) {
        if (!row.items.empty()) break;
        continue;
      }
      if (row.items.empty() && is_comment(line)) continue;
      if (row.items.empty()) row.line = lines_.number();
      add_word(line, row, tags);
    }
    if (row.items.empty()) {
      say_rewritten_iob1(source_.path(), std::exchange(num_rewritten_, 0));
      return false;
    }
    num_rewritten_ += rewrite_iob1(tags);
    if (has_tags_) row.labels = std::move(tags);
    return true;
  }

  const std::filesystem::path& file() const override { return source_.path(); }
  int64_t num_replaced_rows() const override { return num_replaced_rows_; }

 private:
  static bool is_blank(std::string_view line) {
    return line.find_first_not_of(" \t\r") == std::string_view::npos;
  }

  /// `#` may be a word as well: then the line has the columns that the others have.
  bool is_comment(std::string_view line) const {
    if (!line.starts_with('#')) return false;
    if (num_columns_ > 0) return columns_of(line, tabs_).size() != num_columns_;
    return line.find('\t') == std::string_view::npos;
  }

  void add_word(std::string_view line, Row& row, std::vector<std::string>& tags) {
    if (num_columns_ == 0) learn_columns(line);
    std::vector<std::string> columns = columns_of(line, tabs_);
    if (columns.size() != num_columns_) {
      throw_data_error(source_.path(), lines_.number(),
                       shown(line) + " has " + std::to_string(columns.size()) + " columns, expected " +
                           std::to_string(num_columns_) + " between " + (tabs_ ? "tabs" : "blanks") +
                           " as in line " + std::to_string(first_line_) +
                           "; complete the line, or remove it");
    }
    if (has_tags_) {
      std::string& tag = columns[*tag_];
      if (tag.empty()) {
        throw_data_error(source_.path(), lines_.number(),
                         shown(line) + " has an empty tag, expected one such as 'O'; fill it in");
      }
      tags.push_back(std::move(tag));
    }
    row.items.push_back(std::move(columns[word_]));
  }

  /// The first word's line tells how many columns there are.
  void learn_columns(std::string_view line) {
    tabs_ = line.find('\t') != std::string_view::npos;
    num_columns_ = columns_of(line, tabs_).size();
    first_line_ = lines_.number();
    const bool enough = num_columns_ > std::max(word_, tag_.value_or(word_ + 1));
    if (!enough && (tag_required_ || num_columns_ <= word_)) {
      throw_data_error(source_.path(), first_line_,
                       shown(line) + " has " + std::to_string(num_columns_) +
                           (num_columns_ == 1 ? " column" : " columns") + ", expected a word in column " +
                           std::to_string(word_) + " and a tag in " +
                           (tag_ ? "column " + std::to_string(*tag_) : std::string("the last one")) +
                           " (numbered from 0); set data.text and data.label to numbers of columns");
    }
    has_tags_ = enough;
    if (!tag_) tag_ = num_columns_ - 1;
  }

  TextSource source_;
  LineScanner lines_;
  size_t word_;
  std::optional<size_t> tag_;
  bool tag_required_;
  bool has_tags_ = false;
  bool tabs_ = false;
  size_t num_columns_ = 0;  ///< 0: no word was read yet
  int64_t first_line_ = 0;
  int64_t num_rewritten_ = 0;
  int64_t num_replaced_rows_ = 0;
};

}  // namespace

std::unique_ptr<RowReader> open_conll(const std::filesystem::path& path, const DataConfig& config,
                                      LabelPresence labels) {
  return std::make_unique<ConllReader>(path, config, labels);
}

}  // namespace finetune
