#include "finetune/config/load.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "cross_checks.h"
#include "document.h"
#include "finetune/core/error.h"
#include "finetune/core/text.h"
#include "json_text.h"
#include "key_table.h"

namespace finetune {
namespace {

using config::Document;
using config::Key;
using config::Refusal;

std::string last_part(const std::string& dotted) { return dotted.substr(dotted.rfind('.') + 1); }

/// The keys, as dotted names, that a writer of `dotted` most likely meant: the same name elsewhere, else the
/// nearest.
std::vector<std::string> likely_meant(const std::string& dotted) {
  std::vector<std::string> elsewhere;
  std::vector<std::string> siblings;
  const std::string section = dotted.substr(0, dotted.rfind('.') + 1);  // with its dot; empty at the top
  for (const std::string& name : config::dotted_key_names()) {
    if (last_part(name) == last_part(dotted)) elsewhere.push_back(name);
    if (name.substr(0, name.rfind('.') + 1) == section) siblings.push_back(name);
  }
  if (!elsewhere.empty()) return elsewhere;
  if (siblings.empty()) {
    const auto nearest = nearest_name(dotted, config::dotted_key_names());
    return nearest ? std::vector<std::string>{*nearest} : std::vector<std::string>{};
  }
  for (std::string& name : siblings) name.erase(0, section.size());
  const auto nearest = nearest_name(last_part(dotted), siblings);
  return nearest ? std::vector<std::string>{section + *nearest} : std::vector<std::string>{};
}

std::string join(const std::vector<std::string>& parts, const char* separator) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : separator) + part;
  return text;
}

bool is_broken(const Json& value) {
  return value.is_discarded() || (value.is_array() && std::any_of(value.begin(), value.end(), is_broken));
}

/// Reads a merged document into a RunConfig by the table of keys, and notes everything that is wrong with it.
class Reader {
 public:
  explicit Reader(Document& document) : document_(document) {}

  void apply_overrides(const std::vector<std::string>& overrides);
  RunConfig read();
  const std::set<std::string>& given() const { return given_; }

 private:
  void read_section(const std::vector<Key>& keys, const Json& object, const std::string& pointer);
  void read_value(const Key& key, const Json& value, const std::string& pointer);
  void report_unknown(const std::string& pointer, const std::vector<Key>& siblings);
  std::string unknown_key(const std::string& dotted, const std::string& section,
                          const std::vector<Key>& siblings);
  void report_missing(const std::vector<Key>& keys, const std::string& pointer);
  void report_conflict(const config::Conflict& conflict);
  void fill_dependent_defaults();
  bool excused(const std::string& pointer) const;

  Document& document_;
  RunConfig config_;
  std::set<std::string> given_;  ///< pointers of the values that were taken
  std::set<std::string>
      refused_;  ///< pointers of those that were not, and of keys that an unknown one probably means
};

void Reader::apply_overrides(const std::vector<std::string>& overrides) {
  for (const std::string& text : overrides) {
    const size_t equals = text.find('=');
    const std::string dotted = text.substr(0, equals);
    if (equals == std::string::npos || dotted.empty()) {
      document_.report_line("--set " + text + ": expected KEY=VALUE, such as optimizer.learning_rate=3e-5");
    } else if (config::find_dotted_key(dotted) == nullptr) {
      document_.report_line("--set " + dotted + ": " + unknown_key(dotted, "", config::key_table()));
    } else {
      document_.override_value(dotted, text.substr(equals + 1));
    }
  }
}

RunConfig Reader::read() {
  read_section(config::key_table(), document_.json(), "");
  report_missing(config::key_table(), "");
  fill_dependent_defaults();
  for (const config::Conflict& conflict : config::find_conflicts(config_)) {
    report_conflict(conflict);
  }
  if (!document_.problems().empty()) throw ConfigError(join(document_.problems(), "\n"));
  return std::move(config_);
}

void Reader::read_section(const std::vector<Key>& keys, const Json& object, const std::string& pointer) {
  for (const auto& [name, value] : object.items()) {
    const std::string here = config::extend_pointer(pointer, name);
    const Key* key = config::find_key(keys, name);
    if (key == nullptr) {
      report_unknown(here, keys);
    } else if (value.is_null()) {
      continue;
    } else if (!key->is_section()) {
      read_value(*key, value, here);
    } else if (value.is_object()) {
      read_section(key->children, value, here);
    } else {
      if (!is_broken(value)) document_.report(here, config::refuse(value, "an object of keys")->message);
      refused_.insert(here);
    }
  }
}

void Reader::read_value(const Key& key, const Json& value, const std::string& pointer) {
  if (is_broken(value)) {
    refused_.insert(pointer);
    return;
  }
  const config::Origin& origin = document_.origin(pointer);
  Refusal refusal = key.read(value, origin.base, config_);
  // A bare string of an override may look like a number: `--set output_dir=2026`.
  const bool may_be_string = refusal && !value.is_string() && !origin.override_text.empty();
  if (may_be_string && !key.read(origin.override_text, origin.base, config_)) refusal.reset();
  if (refusal) {
    document_.report(pointer + refusal->where, refusal->message);
    refused_.insert(pointer);
  } else {
    given_.insert(pointer);
  }
}

void Reader::report_unknown(const std::string& pointer, const std::vector<Key>& siblings) {
  const std::string section = config::dotted_name(pointer.substr(0, pointer.rfind('/')));
  document_.report(pointer, unknown_key(config::dotted_name(pointer), section, siblings));
}

std::string Reader::unknown_key(const std::string& dotted, const std::string& section,
                                const std::vector<Key>& siblings) {
  std::vector<std::string> meant = likely_meant(dotted);
  for (std::string& name : meant) {
    std::string pointer = "/" + name;
    std::replace(pointer.begin(), pointer.end(), '.', '/');
    refused_.insert(pointer);
    if (!section.empty() && name.starts_with(section + ".")) name.erase(0, section.size() + 1);
  }
  if (!meant.empty()) return "unknown key; did you mean " + join(meant, " or ") + "?";
  std::vector<std::string> known;
  for (const Key& key : siblings) known.push_back(key.name);
  return "unknown key; known here: " + join(known, ", ");
}

void Reader::report_missing(const std::vector<Key>& keys, const std::string& pointer) {
  for (const Key& key : keys) {
    const std::string here = pointer + "/" + key.name;
    report_missing(key.children, here);
    if (key.required && !given_.contains(here) && !excused(here)) {
      document_.report_absent(here, "missing, and a run needs it: " + key.doc);
    }
  }
}

void Reader::report_conflict(const config::Conflict& conflict) {
  const auto& pointers = conflict.pointers;
  if (std::any_of(pointers.begin(), pointers.end(), [this](const auto& pointer) { return excused(pointer); }))
    return;
  const auto written = std::find_if(pointers.begin(), pointers.end(),
                                    [this](const auto& pointer) { return given_.contains(pointer); });
  if (written == pointers.end()) {
    document_.report_absent(pointers.front(), conflict.message);
  } else {
    document_.report(*written, conflict.message);
  }
}

/// Defaults that depend on other keys.
void Reader::fill_dependent_defaults() {
  if (!given_.contains("/optimizer/weight_decay") && config_.optimizer.type != OptimizerType::kAdamW) {
    config_.optimizer.weight_decay = 0;
  }
  DataConfig& data = config_.data;
  data.label_shape = label_shape(config_.task.type);
  if (config_.task.type == TaskType::kTokenClassification && !data.fields && !data.positions) {
    if (!data.tokens) data.tokens = ColumnName{"tokens", {}};
    if (!given_.contains("/data/label")) data.label = ColumnName{"tags", {}};
  }
  if (!config_.train.epochs && !config_.train.max_steps) config_.train.epochs = 3;
  if (!given_.contains("/output_dir")) {
    config_.output_dir = (document_.origin("").base / config_.output_dir).lexically_normal();
  }
}

/// Whether the value at `pointer`, or a section around it, was refused already: one mistake, one message.
bool Reader::excused(const std::string& pointer) const {
  for (std::string around = pointer; !around.empty(); around.resize(around.rfind('/'))) {
    if (refused_.contains(around)) return true;
  }
  return false;
}

}  // namespace

RunConfig load_run_config(const std::filesystem::path& file, const std::vector<std::string>& overrides) {
  return load_config_and_keys(file, overrides).config;
}

LoadedConfig load_config_and_keys(const std::filesystem::path& file,
                                  const std::vector<std::string>& overrides) {
  Document document = Document::from_file(file);
  // A file that cannot be read says nothing about its keys.
  if (!document.readable()) throw ConfigError(join(document.problems(), "\n"));
  Reader reader(document);
  reader.apply_overrides(overrides);
  RunConfig config = reader.read();
  return {std::move(config), reader.given()};
}

RunConfig parse_run_config(const Json& json, const std::filesystem::path& base) {
  Document document = Document::from_json(json, base);
  if (!document.readable()) throw ConfigError(join(document.problems(), "\n"));
  return Reader(document).read();
}

}  // namespace finetune
