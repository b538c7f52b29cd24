#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "finetune/core/json.h"
#include "finetune/data/encoded_dataset.h"

namespace finetune {

/// What was made of some data files: encoded splits by name, and what else was learned on the way.
struct EncodedSplits {
  std::map<std::string, EncodedDataset> splits;
  Json facts = Json::object();
};

/// Encoded data on disk, so that the second run over the same files neither parses nor tokenises them. An
/// entry is one file, found by a hash over the data files' bytes and all settings that decide the result, and
/// mapped into memory. Entries appear whole or not at all, so any number of processes may share a folder. An
/// entry that is damaged is passed over with a warning and made anew; a folder that cannot be written costs a
/// warning.
class TokenCache {
 public:
  /// `setting` is `data.cache_dir`: a folder, `auto` for the user's own (`$FINETUNE_CACHE/tokens`, else
  /// `finetune/tokens` in `$XDG_CACHE_HOME` or `~/.cache`), or `none` to do without. `auto` leaves small
  /// files out: reading them is as quick as looking them up.
  explicit TokenCache(const std::filesystem::path& setting);

  /// The entry of these files and settings, else what `build` returns, which is then kept. Folders, pipes and
  /// the standard input are not cached.
  EncodedSplits get(const std::vector<std::filesystem::path>& files, const Json& settings,
                    const std::function<EncodedSplits()>& build);

 private:
  std::optional<EncodedSplits> find(const std::filesystem::path& entry, const std::string& key) const;
  void make_folder();
  void give_up(const std::string& problem);
  void keep(const std::filesystem::path& entry, const std::string& key, const EncodedSplits& splits);

  std::optional<std::filesystem::path> folder_;
  bool automatic_ = false;
  bool writable_ = true;  ///< until a write fails
};

}  // namespace finetune
