#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "finetune/core/file.h"
#include "finetune/core/json.h"

namespace finetune {

/// RUN/events.out.tfevents.*, which TensorBoard reads: TFRecords of `tensorflow.Event` messages
/// (tensorflow/core/util/event.proto). Every number of a `train`, `epoch` or `eval` event of the log is a
/// scalar `train/loss`, `validation/accuracy` ... at its step.
class EventFile {
 public:
  /// Begins a file of its own. first_step: of a resumed run, whose earlier files may tell of steps that come
  /// anew: TensorBoard forgets what they say of this step and those after it. Throws `std::system_error`.
  EventFile(const std::filesystem::path& folder, std::optional<int64_t> first_step);

  /// Takes an event of the log (see RunLog::write) and hands it to the operating system.
  void write(std::string_view event, const Json& fields);

 private:
  void append(int64_t step, std::string_view content);

  OutputFile file_;
};

/// Deletes the event files in a folder.
void remove_event_files(const std::filesystem::path& folder);

/// A TFRecord: length, payload and their checksums.
std::string tf_record(std::string_view payload);

/// CRC-32C (Castagnoli) of `bytes`.
uint32_t crc32c(std::string_view bytes);

}  // namespace finetune
