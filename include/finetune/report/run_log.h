#pragma once

#include <cstdint>
#include <filesystem>

#include "finetune/core/json.h"

namespace finetune {

/// RUN/metrics.jsonl: one event a line, appended as it happens.
class RunLog {
 public:
  /// Opens the log and cuts it to `length` bytes: what a resumed checkpoint knew of; 0 begins a new one.
  RunLog(std::filesystem::path path, int64_t length);
  ~RunLog();
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;

  /// Appends {"event": event, ...fields} and hands it to the operating system.
  void write(const char* event, const Json& fields);

  /// Makes every line so far durable and returns their length in bytes.
  int64_t sync();

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  int64_t length_ = 0;
};

}  // namespace finetune
