#pragma once

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "finetune/core/file.h"
#include "finetune/core/json.h"
#include "finetune/tokenizer/tokenizer.h"

namespace finetune::testing {

/// A folder of its own for each object, removed with it.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    static std::atomic<int> count = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("finetune-tokenizer-" + std::to_string(::getpid()) + "-" + std::to_string(count++));
    std::filesystem::create_directories(path_);
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void write(const std::string& name, const std::string& content) const {
    std::ofstream(path_ / name, std::ios::binary) << content;
  }

 private:
  std::filesystem::path path_;
};

/// What is logged while the object lives.
class LogCapture {
 public:
  LogCapture() : previous_(spdlog::default_logger()) {
    auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(stream_);
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("capture", sink));
  }
  ~LogCapture() { spdlog::set_default_logger(previous_); }
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  std::string text() const { return stream_.str(); }

 private:
  std::ostringstream stream_;
  std::shared_ptr<spdlog::logger> previous_;
};

inline std::string lines(const std::vector<std::string>& tokens) {
  std::string text;
  for (const std::string& token : tokens) text += token + "\n";
  return text;
}

/// The five special tokens (ids 0 to 4), then `pieces`.
inline std::string bert_vocabulary(const std::vector<std::string>& pieces) {
  return lines({"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}) + lines(pieces);
}

inline std::filesystem::path case_directory(const std::string& name) {
  return std::filesystem::path(FINETUNE_TEST_DATA) / "cases" / name;
}

inline Json read_json(const std::filesystem::path& path) { return Json::parse(read_file(path)); }

/// The ids of a row, as training gets them.
inline std::vector<int32_t> ids_of(const Tokenizer& tokenizer, std::string_view text,
                                   std::optional<std::string_view> pair = std::nullopt,
                                   const EncodeOptions& options = {}) {
  std::vector<int32_t> ids;
  tokenizer.append(text, pair, options, ids);
  return ids;
}

}  // namespace finetune::testing
