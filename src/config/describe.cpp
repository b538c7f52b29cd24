#include "finetune/config/describe.h"

#include <vector>

#include "finetune/config/load.h"
#include "finetune/core/text.h"
#include "key_table.h"

namespace finetune {
namespace {

using config::Key;

constexpr size_t kWidth = 100;

std::string compact(const Json& value) {
  // A path may hold bytes that are no UTF-8.
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Lines of `//` that hold `text`, broken at blanks.
std::string comment(const std::string& text, const std::string& indent) {
  std::string lines;
  std::string line;
  for (const std::string& word : split_at_blanks(text)) {
    if (!line.empty() && indent.size() + line.size() + word.size() + 4 > kWidth) {
      lines += indent + "// " + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return lines + indent + "// " + line + "\n";
}

void write_keys(const std::vector<Key>& keys, const RunConfig& config, const RunConfig& defaults,
                const std::string& indent, std::string& out) {
  for (size_t i = 0; i < keys.size(); ++i) {
    const Key& key = keys[i];
    const char* end = i + 1 == keys.size() ? "\n" : ",\n";
    if (key.is_section()) {
      out += (i == 0 ? "" : "\n") + comment(key.doc, indent) + indent + Json(key.name).dump() + ": {\n";
      write_keys(key.children, config, defaults, indent + "  ", out);
      out += indent + "}" + end;
      continue;
    }
    const std::string value = compact(key.write(config));
    std::string doc = key.doc;
    if (!key.required) {
      const std::string usual = compact(key.write(defaults));
      doc += usual == value ? " (the default)" : " Default: " + usual + ".";
    }
    out += comment(doc, indent) + indent + Json(key.name).dump() + ": " + value + end;
  }
}

}  // namespace

std::string commented_config(const RunConfig& config) {
  std::string out = "{\n";
  write_keys(config::key_table(), config, RunConfig{}, "  ", out);
  return out + "}\n";
}

std::string config_text(const Json& config) {
  std::string out = "{\n";
  size_t left = config.size();
  for (const auto& [name, section] : config.items()) {
    out += "  " + Json(name).dump() + ": ";
    if (section.is_object() && !section.empty()) {
      out += "{\n";
      size_t keys_left = section.size();
      for (const auto& [key, value] : section.items()) {
        out += "    " + Json(key).dump() + ": " + compact(value) + (--keys_left == 0 ? "\n" : ",\n");
      }
      out += "  }";
    } else {
      out += compact(section);
    }
    out += --left == 0 ? "\n" : ",\n";
  }
  return out + "}\n";
}

}  // namespace finetune
