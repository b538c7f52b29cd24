#include <algorithm>
#include <system_error>

#include "finetune/core/log.h"
#include "finetune/core/text.h"
#include "finetune/data/message.h"
#include "finetune/data/readers.h"
#include "finetune/data/text_source.h"

namespace finetune {
namespace {

namespace fs = std::filesystem;

struct Listing {
  std::vector<fs::path> folders;
  std::vector<fs::path> files;
};

/// What is in a folder, hidden names left out, in byte order.
Listing list_folder(const fs::path& path) {
  Listing listing;
  std::error_code error;
  fs::directory_iterator entries(path, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    if (entries->path().filename().native().starts_with('.')) continue;
    (entries->is_directory() ? listing.folders : listing.files).push_back(entries->path());
  }
  if (error) throw_data_error(path, 0, "cannot be listed: " + error.message());
  const auto by_bytes = [](const fs::path& a, const fs::path& b) { return a.native() < b.native(); };
  std::sort(listing.folders.begin(), listing.folders.end(), by_bytes);
  std::sort(listing.files.begin(), listing.files.end(), by_bytes);
  return listing;
}

class FolderReader : public RowReader {
 public:
  FolderReader(const fs::path& path, const DataConfig& config) : root_(path), encoding_(config.encoding) {
    if (config.text_pair) {
      throw_data_error(
          path, 0,
          "a folder a class holds one text a file, but data.text_pair is set; unset it, or use CSV or JSONL");
    }
    Listing listing = list_folder(path);
    if (listing.folders.empty()) {
      throw_data_error(path, 0,
                       "no sub-directories (" + with_thousands(static_cast<long long>(listing.files.size())) +
                           " files), expected one a class with text files in it");
    }
    if (!listing.files.empty()) {
      spdlog::warn("{}: {} files beside the class folders are not read, {} first", path.string(),
                   listing.files.size(), shown(listing.files.front().filename().string()));
    }
    classes_ = std::move(listing.folders);
    for (const fs::path& folder : classes_) {
      if (find_invalid_utf8(folder.filename().native()) != std::string_view::npos) {
        throw_data_error(folder, 0, "the folder's name is not UTF-8, but it is the label; rename the folder");
      }
    }
  }

  bool next(Row& row) override {
    while (next_file_ == files_.size()) {
      if (next_class_ == classes_.size()) return false;
      open_class(classes_[next_class_++]);
    }
    file_ = files_[next_file_++];
    read_text(row.text);
    row.text_pair.reset();
    row.label = label_;
    row.line = 0;
    return true;
  }

  const fs::path& file() const override { return file_; }
  int64_t num_replaced_rows() const override { return num_replaced_rows_; }

 private:
  void open_class(const fs::path& folder) {
    Listing listing = list_folder(folder);
    if (!listing.folders.empty()) {
      throw_data_error(
          listing.folders.front(), 0,
          "a folder inside a class folder, expected text files; move its files up, or remove it");
    }
    if (listing.files.empty()) spdlog::warn("{}: the class has no texts", folder.string());
    label_ = folder.filename().string();
    files_ = std::move(listing.files);
    next_file_ = 0;
  }

  void read_text(std::string& text) {
    TextSource source(file_, encoding_);
    while (source.extend()) {
      if (source.window().size() > kMaxRowBytes) {
        throw_data_error(
            file_, 0,
            "longer than " + std::to_string(kMaxRowBytes >> 20) + " MiB, expected one text; split it");
      }
    }
    num_replaced_rows_ += source.take_replaced(source.window().size());
    text.assign(source.window());
  }

  fs::path root_;
  TextEncoding encoding_;
  std::vector<fs::path> classes_;
  size_t next_class_ = 0;
  std::vector<fs::path> files_;  // of the class being read
  size_t next_file_ = 0;
  fs::path file_;
  std::string label_;
  int64_t num_replaced_rows_ = 0;
};

}  // namespace

std::unique_ptr<RowReader> open_folder(const fs::path& path, const DataConfig& config) {
  return std::make_unique<FolderReader>(path, config);
}

}  // namespace finetune
