#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "finetune/core/json.h"

namespace finetune {

/// One HTML page of one or many runs' records (see read_run_record). It stands alone: no network, no other
/// file.
std::string report_page(const Json& runs);

/// Reads the runs in `folders` and replaces `output` by their page, atomically. Throws `ConfigError` where a
/// folder is no run's, and `std::system_error` where the page cannot be written.
void write_report(const std::vector<std::filesystem::path>& folders, const std::filesystem::path& output);

/// `text` as the content of an HTML element or attribute.
std::string escape_html(std::string_view text);

/// JSON as the content of a <script> element: no text in it can end the element.
std::string json_for_script(const Json& value);

/// RUN/report.html of a run that is going on.
class RunReport {
 public:
  /// enabled: else it does nothing.
  RunReport(std::filesystem::path folder, bool enabled) : folder_(std::move(folder)), enabled_(enabled) {}

  /// Writes the page anew from what the folder records, unless pages would take more than a hundredth of the
  /// time. A page that cannot be written is warned of, once: training matters more.
  void refresh();
  /// The same whatever it takes: the run has ended.
  void finish();

 private:
  void write();

  std::filesystem::path folder_;
  bool enabled_;
  bool warned_ = false;
  double next_ = 0;  ///< on the monotonic clock
};

}  // namespace finetune
