#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "finetune/core/json.h"

namespace finetune::config {

/// Where a value of the merged config was written.
struct Origin {
  std::string file;            ///< as messages name it; empty for an override
  std::filesystem::path base;  ///< where relative paths start
  std::string override_text;   ///< what stood behind the `=` of an override
};

/// A config as written: files, the files they extend, and overrides, merged, with the origin of every value
/// and the problems met on the way. Knows nothing of which keys exist.
class Document {
 public:
  /// Reads a file, below it the file that it extends, and expands `${NAME}` in strings.
  static Document from_file(const std::filesystem::path& file);
  static Document from_json(const Json& json, const std::filesystem::path& base);

  /// Lays `value`, as it stands on the command line, over the value at a dotted key.
  void override_value(const std::string& dotted, const std::string& value);

  /// A string whose variables could not be expanded is there as a discarded value; its problem is noted.
  const Json& json() const { return json_; }
  /// The origin of the value at `pointer`, or of the nearest value around it.
  const Origin& origin(const std::string& pointer) const;

  /// Notes a problem with the value at `pointer`; the message starts with its place.
  void report(const std::string& pointer, const std::string& message);
  /// Notes a problem with a value that was not written: its place is the file itself.
  void report_absent(const std::string& pointer, const std::string& message);
  /// Notes a problem whose message names its place itself.
  void report_line(const std::string& message) { problems_.push_back(message); }
  const std::vector<std::string>& problems() const { return problems_; }

  /// False where a file could not be read or is not JSON: then nothing is known about its keys.
  bool readable() const { return readable_; }

 private:
  void read_file(const std::filesystem::path& file, std::vector<std::filesystem::path>& chain);
  void report_unreadable(const std::string& message);
  void read_base(const Json& name, const Origin& origin, std::vector<std::filesystem::path>& chain);
  /// Expands variables in every string of `json`; one that cannot be expanded becomes a discarded value.
  void expand(Json& json, const Origin& origin, const std::string& pointer);
  void merge(Json& target, const Json& patch, const Origin& origin, const std::string& pointer);

  Json json_ = Json::object();
  std::map<std::string, Origin> origins_;  ///< by JSON pointer
  std::vector<std::string> problems_;
  bool readable_ = true;
};

/// "a.b" for "/a/b".
std::string dotted_name(std::string_view pointer);

}  // namespace finetune::config
