#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "finetune/config/run_config.h"
#include "finetune/core/json.h"
#include "value_kinds.h"

namespace finetune::config {

/// One key of the config, or a section of them. Parsing, printing, the schema and the list of known names all
/// come from this table.
struct Key {
  std::string name;
  std::string doc;
  bool required = false;
  std::vector<Key> children;  ///< of a section; empty for a value

  // Of a value.
  std::function<Refusal(const Json& value, const std::filesystem::path& base, RunConfig& config)> read;
  std::function<Json(const RunConfig& config)> write;
  Json schema;

  bool is_section() const { return !children.empty(); }
};

/// Every key, in the order in which people should read them. To add one, add its line in key_table.cpp.
const std::vector<Key>& key_table();

/// The key with that name, or nullptr.
const Key* find_key(const std::vector<Key>& keys, std::string_view name);

/// The key with that dotted name, or nullptr.
const Key* find_dotted_key(std::string_view dotted);

/// The dotted names of all keys, sections too.
const std::vector<std::string>& dotted_key_names();

}  // namespace finetune::config
