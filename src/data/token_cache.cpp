#include "finetune/data/token_cache.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "digest_memo.h"
#include "finetune/core/environment.h"
#include "finetune/core/file.h"
#include "finetune/core/hash.h"
#include "finetune/core/log.h"
#include "finetune/core/version.h"
#include "token_cache_file.h"

namespace finetune {
namespace {

namespace fs = std::filesystem;

constexpr uintmax_t kSmallestCached = uintmax_t{1}
                                      << 20;  ///< bytes of data files, where the folder is `auto`
constexpr uintmax_t kLargestFolder = uintmax_t{20} << 30;
constexpr const char* kExtension = ".tokens";
constexpr auto kOldestLeftover = std::chrono::hours(24);
constexpr auto kOldestDigest = std::chrono::hours(24 * 90);

/// Nothing unless all are regular files.
std::optional<std::vector<FileStamp>> stamps(const std::vector<fs::path>& files) {
  std::vector<FileStamp> result;
  for (const fs::path& file : files) {
    const auto stamp = FileStamp::of(file);
    if (!stamp) return std::nullopt;
    result.push_back(*stamp);
  }
  return result;
}

std::string digest_of(const fs::path& file, const FileStamp& stamp, const DigestMemo& memo) {
  if (auto known = memo.find(file, stamp)) return *known;
  Xxh3 content;
  read_in_pieces(file, [&](std::string_view piece) { content.update(piece); });
  if (stamp.is_settled()) memo.remember(file, stamp, content.hex());
  return content.hex();
}

/// The name's ending is part of it, because it may decide the format; the rest of the name is not. Nothing
/// where a file cannot be read.
std::optional<std::string> key_of(const std::vector<fs::path>& files,
                                  const std::vector<FileStamp>& file_stamps, const Json& settings,
                                  const DigestMemo& memo) {
  Xxh3 hash;
  const auto add = [&](std::string_view text) {
    const uint64_t size = text.size();
    hash.update(&size, sizeof(size));
    hash.update(text);
  };
  add(FINETUNE_VERSION);
  add(settings.dump());
  try {
    for (size_t i = 0; i < files.size(); ++i) {
      add(files[i].extension().string());
      add(digest_of(files[i], file_stamps[i], memo));
    }
  } catch (const std::system_error&) {
    return std::nullopt;  // the reader has the better message
  }
  return hash.hex();
}

/// An entry's own times tell whether it was changed, so the file with its digest tells when it was used.
fs::file_time_type last_use(const DigestMemo& memo, const fs::path& entry) {
  std::error_code error;
  const auto used = fs::last_write_time(memo.place(entry), error);
  return error ? fs::file_time_type::min() : used;
}

/// Makes room: removes what a killed process left unfinished, digests that were of no use for long, and the
/// entries unused for longest until the folder is within its limit.
void trim(const fs::path& folder, const DigestMemo& memo, const fs::path& newest) {
  struct Entry {
    fs::file_time_type used;
    uintmax_t size;
    fs::path path;
  };
  std::vector<Entry> entries;
  uintmax_t total = 0;
  std::error_code ignored;
  const auto now = fs::file_time_type::clock::now();
  for (fs::directory_iterator files(folder, ignored); files != fs::directory_iterator();
       files.increment(ignored)) {
    const fs::path& path = files->path();
    const auto written = files->last_write_time(ignored);
    const std::string name = path.filename().string();
    const bool unfinished = name.find(std::string(kExtension) + ".tmp-") != std::string::npos ||
                            name.find(std::string(DigestMemo::kExtension) + ".tmp-") != std::string::npos;
    const bool idle_digest = path.extension() == DigestMemo::kExtension && written < now - kOldestDigest;
    if ((unfinished && written < now - kOldestLeftover) || idle_digest) fs::remove(path, ignored);
    if (path.extension() != kExtension) continue;
    const auto size = files->file_size(ignored);
    total += size;
    if (path != newest) entries.push_back({std::max(written, last_use(memo, path)), size, path});
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& entry : entries) {
    if (total <= kLargestFolder) break;
    fs::remove(entry.path, ignored);
    total -= entry.size;
  }
}

}  // namespace

TokenCache::TokenCache(const fs::path& setting) : automatic_(setting == "auto") {
  if (setting == "none") return;
  folder_ = setting;
  if (!automatic_) return;
  folder_ = environment_path("FINETUNE_CACHE").value_or(user_cache_folder() / "finetune") / "tokens";
}

EncodedSplits TokenCache::get(const std::vector<fs::path>& files, const Json& settings,
                              const std::function<EncodedSplits()>& build) {
  const auto before = folder_ ? stamps(files) : std::nullopt;
  if (!before) return build();
  uintmax_t size = 0;
  for (const FileStamp& stamp : *before) size += static_cast<uintmax_t>(stamp.size);
  if (automatic_ && size < kSmallestCached) return build();

  make_folder();
  const auto key = key_of(files, *before, settings, DigestMemo(*folder_));
  if (!key) return build();
  const fs::path entry = *folder_ / (*key + kExtension);
  if (auto found = find(entry, *key)) {
    spdlog::info("{}: encoded rows are taken from {}", files.front().string(), entry.string());
    return std::move(*found);
  }
  EncodedSplits built = build();
  // What changed while it was read must not stay under the hash of what it was before.
  if (writable_ && stamps(files) == before) keep(entry, *key, built);
  return built;
}

std::optional<EncodedSplits> TokenCache::find(const fs::path& entry, const std::string& key) const {
  std::error_code error;
  if (!fs::exists(entry, error)) return std::nullopt;
  try {
    const DigestMemo memo(*folder_);
    const auto stamp = FileStamp::of(entry);
    const CacheFile file(entry, key);
    if (stamp && memo.find(entry, *stamp) == file.checksum()) {
      fs::last_write_time(memo.place(entry), fs::file_time_type::clock::now(), error);
    } else {
      file.verify();
      if (stamp) memo.remember(entry, *stamp, file.checksum());
    }
    return file.splits();
  } catch (const std::exception& problem) {
    spdlog::warn("{}: this entry of the cache of encoded rows is not used, and is made anew: {}",
                 entry.string(), problem.what());
    return std::nullopt;
  }
}

void TokenCache::keep(const fs::path& entry, const std::string& key, const EncodedSplits& splits) {
  try {
    const DigestMemo memo(*folder_);
    const std::string checksum = write_cache_file(entry, key, splits);
    if (const auto stamp = FileStamp::of(entry)) memo.remember(entry, *stamp, checksum);
    trim(*folder_, memo, entry);
  } catch (const std::system_error& problem) {
    give_up(problem.what());
  }
}

/// Texts can be read off their ids: the folder is the user's alone.
void TokenCache::make_folder() {
  std::error_code error;
  if (fs::create_directories(*folder_, error)) fs::permissions(*folder_, fs::perms::owner_all, error);
  if (error) give_up("cannot create the folder " + folder_->string() + ": " + error.message());
}

void TokenCache::give_up(const std::string& problem) {
  if (!std::exchange(writable_, false)) return;
  spdlog::warn(
      "encoded rows are not kept for the next run: {}; name another folder in data.cache_dir, or \"none\"",
      problem);
}

}  // namespace finetune
