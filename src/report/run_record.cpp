#include "finetune/report/run_record.h"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "finetune/core/clock.h"
#include "finetune/core/error.h"
#include "finetune/core/file.h"
#include "finetune/core/text.h"

namespace finetune {
namespace {

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

/// Events of one kind, a column a field.
class Columns {
 public:
  void add(const Json& event) {
    for (const auto& [name, value] : event.items()) {
      if (!value.is_number() && !value.is_null()) continue;
      std::vector<double>& column = column_of(name);
      column.resize(num_rows_, kNothing);
      column.push_back(value.is_null() ? kNothing : value.get<double>());
    }
    ++num_rows_;
  }

  Json to_json(size_t most) const {
    const size_t group = std::max<size_t>((num_rows_ + most - 1) / most, 1);
    Json result = Json::object();
    for (const auto& [name, column] : columns_) {
      Json values = Json::array();
      for (size_t first = 0; first < num_rows_; first += group) {
        const size_t last = std::min(num_rows_, first + group);
        values.push_back(name == "step" || name == "epoch" ? at(column, last - 1)
                                                           : mean(column, first, last));
      }
      result[name] = std::move(values);
    }
    return result;
  }

  size_t num_rows() const { return num_rows_; }

 private:
  std::vector<double>& column_of(const std::string& name) {
    for (auto& [known, column] : columns_) {
      if (known == name) return column;
    }
    return columns_.emplace_back(name, std::vector<double>()).second;
  }

  /// Seven digits: what float32 sums are good for, in half the bytes.
  static Json rounded(double value) {
    if (!std::isfinite(value)) return nullptr;
    if (value == std::floor(value) && std::abs(value) < 1e15) return static_cast<int64_t>(value);
    char text[32];
    std::snprintf(text, sizeof(text), "%.7g", value);
    return std::strtod(text, nullptr);
  }

  static Json at(const std::vector<double>& column, size_t row) {
    return row < column.size() ? rounded(column[row]) : Json();
  }

  static Json mean(const std::vector<double>& column, size_t first, size_t last) {
    double sum = 0;
    size_t count = 0;
    for (size_t row = first; row < std::min(last, column.size()); ++row) {
      if (!std::isfinite(column[row])) continue;
      sum += column[row];
      ++count;
    }
    return count == 0 ? Json() : rounded(sum / static_cast<double>(count));
  }

  std::vector<std::pair<std::string, std::vector<double>>> columns_;
  size_t num_rows_ = 0;
};

/// metrics.jsonl, as far as it can be read.
class LogReader {
 public:
  LogReader(Json& record, Json& problems) : record_(record), problems_(problems) {}

  void read(std::string_view text) {
    size_t number = 0, num_damaged = 0, first_damaged = 0;
    while (!text.empty()) {
      ++number;
      const size_t end = text.find('\n');
      const std::string_view line = text.substr(0, end);
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
      const Json event = Json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (event.is_object() && event.contains("event") && event["event"].is_string()) {
        take(event);
      } else if (text.empty() && end == std::string_view::npos) {
        problems_.push_back(
            "metrics.jsonl: its last line is cut off and left out: the run was killed while writing "
            "it, or is writing it now");
      } else if (num_damaged++ == 0) {
        first_damaged = number;
      }
    }
    if (num_damaged > 0) {
      problems_.push_back("metrics.jsonl: " + std::to_string(num_damaged) +
                          " line(s) are no event and left out, the "
                          "first is line " +
                          std::to_string(first_damaged));
    }
  }

  void finish() {
    record_["train"] = train_.to_json(kMostPoints);
    if (train_.num_rows() > kMostPoints) {
      problems_.push_back("curves of training show means: its log has " +
                          with_thousands(static_cast<long long>(train_.num_rows())) + " points");
    }
    record_["epoch"] = epoch_.to_json(kMostPoints);
    record_["eval"] = Json::object();
    for (const auto& [split, columns] : eval_) record_["eval"][split] = columns.to_json(kMostPoints);
  }

 private:
  void take(const Json& event) {
    const std::string& kind = event["event"].get_ref<const std::string&>();
    if (kind == "train") {
      train_.add(event);
    } else if (kind == "epoch") {
      epoch_.add(event);
    } else if (kind == "eval") {
      const auto split = event.find("split");
      eval_[split != event.end() && split->is_string() ? split->get<std::string>() : "validation"].add(event);
    } else if (kind == "start" || kind == "resume") {
      record_["start"] = event;
      if (kind == "resume") record_["resumes"].push_back(event.value("step", Json()));
    }
  }

  Json& record_;
  Json& problems_;
  Columns train_, epoch_;
  std::map<std::string, Columns> eval_;
};

/// The object in a file of the folder; null, with a word about it, where there is none.
Json read_object(const std::filesystem::path& path, Json& problems) {
  if (!std::filesystem::exists(path)) return nullptr;
  try {
    Json value = Json::parse(read_file(path), nullptr, /*allow_exceptions=*/false);
    if (value.is_object()) return value;
    problems.push_back(path.filename().string() + ": it is damaged (no JSON object) and left out");
  } catch (const std::system_error& error) {
    problems.push_back(error.what());
  }
  return nullptr;
}

std::string name_of(const std::filesystem::path& folder) {
  std::error_code unknown;
  auto path = std::filesystem::weakly_canonical(folder, unknown);
  if (unknown) path = folder;
  return path.has_filename() ? path.filename().string() : path.parent_path().filename().string();
}

[[noreturn]] void refuse(const std::filesystem::path& folder) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    throw ConfigError(folder.string() + ": there is no such folder; name the output_dir of a run");
  }
  std::vector<std::string> inside;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (std::filesystem::exists(entry.path() / "metrics.jsonl", error))
      inside.push_back(entry.path().filename().string());
  }
  throw ConfigError(
      folder.string() +
      ": is no run's folder: expected metrics.jsonl or summary.json in it, and found neither; name the "
      "output_dir of a run" +
      (inside.empty() ? "" : ", such as those in it: " + join_some(inside, 3)));
}

}  // namespace

Json read_run_record(const std::filesystem::path& folder) {
  Json problems = Json::array();
  Json record{{"name", name_of(folder)}, {"folder", folder.string()}};
  const auto log = folder / "metrics.jsonl";
  const bool has_log = std::filesystem::is_regular_file(log);
  Json config = read_object(folder / "config.json", problems);
  const bool is_config = config.is_object() && config.contains("output_dir");  // not a model's
  if (!has_log && !std::filesystem::exists(folder / "summary.json") && !is_config) refuse(folder);

  record["config"] = std::move(config);
  record["summary"] = read_object(folder / "summary.json", problems);
  record["details"] = read_object(folder / "details.json", problems);
  record["status"] = record["summary"].is_object() ? record["summary"].value("status", Json("unfinished"))
                                                   : Json("unfinished");
  record["start"] = nullptr;
  record["resumes"] = Json::array();
  LogReader reader(record, problems);
  if (has_log) {
    try {
      reader.read(read_file(log));
      struct stat info {};
      if (::stat(log.c_str(), &info) == 0) record["last_record"] = utc_timestamp(info.st_mtime);
    } catch (const std::system_error& error) {
      problems.push_back(error.what());
    }
  } else {
    problems.push_back("metrics.jsonl: it is missing, so there are no curves");
  }
  reader.finish();
  record["problems"] = std::move(problems);
  return record;
}

}  // namespace finetune
