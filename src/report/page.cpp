#include "finetune/report/page.h"

#include <system_error>
#include <utility>

#include "finetune/core/clock.h"
#include "finetune/core/file.h"
#include "finetune/core/log.h"
#include "finetune/core/version.h"
#include "finetune/report/run_record.h"
#include "page_files.h"

namespace finetune {
namespace {

/// The time between two pages of a run that is going on, in times that one took.
constexpr double kRest = 100;

/// Every `{{name}}` in the template replaced by its value; what a value holds stays as it is.
std::string filled(std::string_view text,
                   const std::vector<std::pair<std::string_view, std::string>>& values) {
  std::string result;
  while (true) {
    const size_t begin = text.find("{{");
    const size_t end = begin == std::string_view::npos ? begin : text.find("}}", begin);
    if (end == std::string_view::npos) return result.append(text);
    result.append(text.substr(0, begin));
    const std::string_view name = text.substr(begin + 2, end - begin - 2);
    for (const auto& [key, value] : values) {
      if (key == name) result += value;
    }
    text.remove_prefix(end + 2);
  }
}

std::string title_of(const Json& runs) {
  if (runs.size() == 1) return runs.front().at("name").get<std::string>() + " - finetune";
  return std::to_string(runs.size()) + " runs - finetune";
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string json_for_script(const Json& value) {
  const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string result;
  result.reserve(text.size());
  for (const char c : text) {
    // Only in strings can one stand, where the escape means the same.
    if (c == '<') {
      result += "\\u003c";
    } else {
      result += c;
    }
  }
  return result;
}

std::string report_page(const Json& runs) {
  const Json data{{"version", FINETUNE_VERSION}, {"written", utc_timestamp()}, {"runs", runs}};
  return filled(report_page_files::kTemplate, {{"title", escape_html(title_of(runs))},
                                               {"style", std::string(report_page_files::kStyle)},
                                               {"script", std::string(report_page_files::kScript)},
                                               {"data", json_for_script(data)}});
}

void write_report(const std::vector<std::filesystem::path>& folders, const std::filesystem::path& output) {
  Json runs = Json::array();
  for (const auto& folder : folders) runs.push_back(read_run_record(folder));
  write_file_atomically(output, report_page(runs));
}

void RunReport::refresh() {
  if (!enabled_ || monotonic_seconds() < next_) return;
  const double began = monotonic_seconds();
  write();
  const double ended = monotonic_seconds();
  next_ = ended + kRest * (ended - began);
}

void RunReport::finish() {
  if (enabled_) write();
}

void RunReport::write() {
  try {
    write_report({folder_}, folder_ / "report.html");
  } catch (const std::system_error& error) {
    if (!std::exchange(warned_, true)) spdlog::warn("report.html is not written: {}", error.what());
  }
}

}  // namespace finetune
