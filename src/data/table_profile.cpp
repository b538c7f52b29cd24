#include "finetune/data/table_profile.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "data_file_format.h"
#include "finetune/core/json.h"
#include "finetune/core/text.h"
#include "finetune/data/delimited_parser.h"
#include "finetune/data/message.h"
#include "finetune/data/readers.h"
#include "usual_names.h"

namespace finetune {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostColumns = 1'000;

struct Number {
  bool is_number = false;
  bool is_whole = false;
};

Number number_of(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return {};
  return {true, text.find_first_of(".eE") == std::string_view::npos};
}

int64_t count_words(std::string_view text) {
  int64_t count = 0;
  bool inside = false;
  for (const char byte : text) {
    const bool blank = byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
    count += !blank && !inside;
    inside = !blank;
  }
  return count;
}

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

void add_parts(ColumnProfile& column, std::string_view value) {
  for (size_t i = 0; i < ColumnProfile::kSeparators.size(); ++i) {
    const char separator = ColumnProfile::kSeparators[i];
    column.separated[i] += value.find(separator) != std::string_view::npos;
    for (size_t begin = 0; begin <= value.size();) {
      const size_t end = std::min(value.find(separator, begin), value.size());
      column.parts[i].add(trimmed(value.substr(begin, end - begin)));
      begin = end + 1;
    }
  }
}

void add_text(ColumnProfile& column, std::string_view value) {
  if (trimmed(value).empty()) {
    ++column.empty;
    return;
  }
  column.values.add(value);
  const Number number = number_of(value);
  if (number.is_number) {
    ++column.numbers;
    column.fractions += !number.is_whole;
    return;
  }
  ++column.strings;
  column.bytes += static_cast<int64_t>(value.size());
  column.words += count_words(value);
  // What is long is no list of classes.
  if (value.size() <= ColumnProfile::kSeparators.size() * ValueCounts::kLongestValue)
    add_parts(column, value);
}

void add_item(ColumnProfile& column, const Json& item) {
  ++column.list_items;
  if (item.is_string()) {
    const auto& text = item.get_ref<const std::string&>();
    column.list_words += count_words(text);
    column.list_values.add(text);
  } else {
    column.list_whole_numbers += item.is_number_integer();
    column.list_values.add(item.dump());
  }
}

void add_json(ColumnProfile& column, const Json& value) {
  if (value.is_null()) {
    ++column.empty;
  } else if (value.is_string()) {
    add_text(column, value.get_ref<const std::string&>());
  } else if (value.is_number()) {
    const std::string text = value.dump();
    column.values.add(text);
    ++column.numbers;
    column.fractions += value.is_number_float();
  } else if (value.is_boolean()) {
    column.values.add(value.get<bool>() ? "true" : "false");
    ++column.booleans;
  } else if (value.is_array() && std::none_of(value.begin(), value.end(),
                                              [](const Json& item) { return item.is_structured(); })) {
    ++column.lists;
    for (const Json& item : value) add_item(column, item);
  } else {
    ++column.others;
  }
}

ColumnProfile new_column(std::string name, size_t index) {
  ColumnProfile column;
  column.name = std::move(name);
  column.index = index;
  return column;
}

// ---- CSV and TSV
// --------------------------------------------------------------------------------------------

/// Fields of the first records that a delimiter gives: 0 where they have not all the same number.
size_t fields_with(const fs::path& path, TextEncoding encoding, char delimiter) {
  constexpr int kRecordsThatShow = 20;
  TextSource source(path, encoding);
  DelimitedParser parser(source, delimiter);
  DelimitedParser::Record record;
  size_t fields = 0;
  try {
    for (int i = 0; i < kRecordsThatShow && parser.next(record); ++i) {
      if (i > 0 && record.fields.size() != fields) return 0;
      fields = record.fields.size();
    }
  } catch (const std::exception&) {
    return 0;  // under this delimiter it is no table; the right one tells what is wrong with it
  }
  return fields;
}

/// The format's own delimiter where it gives a table of several columns, else the one that gives most.
char find_delimiter(const fs::path& path, TextEncoding encoding, char usual) {
  if (fields_with(path, encoding, usual) > 1) return usual;
  char best = usual;
  size_t most = 1;
  for (const char candidate : {',', ';', '\t', '|'}) {
    const size_t fields = fields_with(path, encoding, candidate);
    if (fields > most) {
      most = fields;
      best = candidate;
    }
  }
  return best;
}

/// Whether the first record names columns: by usual names, else because none of its fields is a number, a
/// sentence, empty, or there twice.
bool names_columns(const std::vector<std::string>& fields) {
  constexpr size_t kLongestName = 40;
  bool usual = false;
  for (const std::string& field : fields) {
    if (number_of(field).is_number || trimmed(field).empty() || field.size() > kLongestName ||
        count_words(field) > 3 || std::count(fields.begin(), fields.end(), field) > 1)
      return false;
    usual |= is_usual_name(field, true) || is_usual_name(field, false) || is_usual_id_name(field);
  }
  return usual || fields.size() > 1;
}

void profile_delimited(TableProfile& table, const DataConfig& config) {
  const char usual = table.format == DataFormat::kTsv ? '\t' : ',';
  const char delimiter =
      config.delimiter ? *config.delimiter : find_delimiter(table.path, config.encoding, usual);
  if (delimiter != usual) table.delimiter = delimiter;
  TextSource source(table.path, config.encoding);
  DelimitedParser parser(source, delimiter);
  DelimitedParser::Record record;
  if (!parser.next(record))
    throw_data_error(table.path, 0, "no rows, expected some; check that it is the right file");
  const std::vector<std::string> first(record.fields.begin(), record.fields.end());
  if (first.size() > kMostColumns) {
    throw_data_error(table.path, record.line,
                     std::to_string(first.size()) + " columns, expected at most " +
                         std::to_string(kMostColumns) + "; keep those with texts and labels");
  }
  table.has_header =
      config.header == HeaderMode::kAuto ? names_columns(first) : config.header == HeaderMode::kPresent;
  for (size_t i = 0; i < first.size(); ++i)
    table.columns.push_back(new_column(table.has_header ? first[i] : "", i));
  bool pending = !table.has_header;
  while (pending || parser.next(record)) {
    pending = false;
    if (table.num_rows == TableProfile::kMostRows) {
      table.whole = false;
      break;
    }
    // A row of another width is the reader's to refuse.
    const size_t width = std::min(record.fields.size(), table.columns.size());
    for (size_t i = 0; i < width; ++i) add_text(table.columns[i], record.fields[i]);
    ++table.num_rows;
  }
}

// ---- JSONL
// --------------------------------------------------------------------------------------------------

ColumnProfile* column_named(TableProfile& table, const std::string& name) {
  for (ColumnProfile& column : table.columns) {
    if (column.name == name) return &column;
  }
  if (table.columns.size() == kMostColumns) return nullptr;
  table.columns.push_back(new_column(name, table.columns.size()));
  for (auto& row : table.same_length) row.push_back(0);
  table.same_length.emplace_back(table.columns.size(), 0);
  return &table.columns.back();
}

void compare_lengths(TableProfile& table, const Json& object) {
  std::vector<std::pair<size_t, size_t>> lengths;  // column, items
  for (const auto& [name, value] : object.items()) {
    if (value.is_array()) {
      if (const ColumnProfile* column = column_named(table, name))
        lengths.emplace_back(column->index, value.size());
    }
  }
  for (const auto& [a, length_a] : lengths) {
    for (const auto& [b, length_b] : lengths) table.same_length[a][b] += length_a == length_b;
  }
}

void profile_jsonl(TableProfile& table, const DataConfig& config) {
  TextSource source(table.path, config.encoding);
  LineScanner lines(source);
  std::string_view line;
  while (lines.next(line)) {
    if (trimmed(line).empty()) continue;
    if (table.num_rows == TableProfile::kMostRows) {
      table.whole = false;
      break;
    }
    const Json object = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!object.is_object()) {
      throw_data_error(table.path, lines.number(),
                       std::string(object.is_discarded() ? "not JSON" : "no JSON object") +
                           ", expected one JSON object a line; write the file anew with: jq -c " +
                           (object.is_array() || line.starts_with('[') ? "'.[]'" : ".") + " IN > OUT");
    }
    for (const auto& [name, value] : object.items()) {
      if (ColumnProfile* column = column_named(table, name)) add_json(*column, value);
    }
    compare_lengths(table, object);
    ++table.num_rows;
  }
  for (ColumnProfile& column : table.columns) column.empty = table.num_rows - column.present();
  if (table.num_rows == 0) {
    throw_data_error(table.path, 0,
                     "no rows, expected one JSON object a line; check that it is the right file");
  }
}

// ---- What the readers know without a choice of columns
// ------------------------------------------------------

/// CoNLL (a list of words and one of tags a row) and folders (a text and its class).
void profile_rows(TableProfile& table, DataConfig config) {
  config.format = table.format;
  const bool words = table.format == DataFormat::kConll;
  config.label_shape = words ? LabelShape::kItems : LabelShape::kClass;
  if (words) {
    config.tokens = ColumnName{"tokens", {}};
    config.label = ColumnName{"tags", {}};
  }
  table.columns = {new_column(words ? "tokens" : "text", 0), new_column(words ? "tags" : "label", 1)};
  table.same_length.assign(2, std::vector<int64_t>(2, 0));
  const auto reader = open_rows(table.path, config, LabelPresence::kOptional);
  Row row;
  while (table.num_rows < TableProfile::kMostRows && reader->next(row)) {
    if (words) {
      add_json(table.columns[0], Json(row.items));
      if (row.labels) add_json(table.columns[1], Json(*row.labels));
      if (row.labels) table.same_length[0][1] += row.labels->size() == row.items.size();
    } else {
      add_text(table.columns[0], row.text);
      add_text(table.columns[1], row.label.value_or(""));
    }
    ++table.num_rows;
  }
  table.whole = table.num_rows < TableProfile::kMostRows;
  if (table.num_rows == 0)
    throw_data_error(table.path, 0, "no rows, expected some; check that it is the right file");
}

}  // namespace

void ValueCounts::add(std::string_view value) {
  const std::string key(value.substr(0, kLongestValue));
  const auto found = counts_.find(key);
  if (found != counts_.end()) {
    ++found->second;
  } else if (counts_.size() < kMostValues) {
    counts_.emplace(key, 1);
  } else {
    overflowed_ = true;
  }
}

std::vector<std::pair<std::string, int64_t>> ValueCounts::sorted() const {
  std::vector<std::pair<std::string, int64_t>> result(counts_.begin(), counts_.end());
  std::sort(result.begin(), result.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  return result;
}

int64_t ValueCounts::count(std::string_view value) const {
  const auto found = counts_.find(std::string(value.substr(0, kLongestValue)));
  return found == counts_.end() ? 0 : found->second;
}

const ColumnProfile* TableProfile::find(const ColumnName& column) const {
  for (const ColumnProfile& candidate : columns) {
    if (column.index ? candidate.index == *column.index
                     : !candidate.name.empty() && candidate.name == column.name)
      return &candidate;
  }
  return nullptr;
}

std::vector<std::string> TableProfile::names() const {
  std::vector<std::string> result;
  for (const ColumnProfile& column : columns) {
    result.push_back(column.name.empty() ? std::to_string(column.index) : column.name);
  }
  return result;
}

TableProfile profile_table(const fs::path& path, const DataConfig& config) {
  TableProfile table;
  table.path = path;
  table.format = data_file_format(path, config);
  switch (table.format) {
    case DataFormat::kJsonl:
      profile_jsonl(table, config);
      break;
    case DataFormat::kConll:
    case DataFormat::kFolder:
      profile_rows(table, config);
      break;
    default:
      profile_delimited(table, config);
  }
  return table;
}

}  // namespace finetune
