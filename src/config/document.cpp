#include "document.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <system_error>
#include <utility>

#include "finetune/core/file.h"
#include "finetune/core/text.h"
#include "json_text.h"

namespace finetune::config {
namespace {

std::string place(const Origin& origin, const std::string& pointer) {
  if (origin.file.empty()) return "--set " + dotted_name(pointer) + ": ";
  return origin.file + ": " + (pointer.empty() ? "" : pointer + ": ");
}

bool is_variable_name(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !name.empty() && letter(name[0]) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

/// `text` with `${NAME}` replaced and `$${` made `${`, or what is wrong with it.
struct Expansion {
  std::string text;
  std::vector<std::string> problems;
};

Expansion expand_variables(const std::string& text) {
  Expansion result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 3, "$${") == 0) {
      result.text += "${";
      i += 2;
    } else if (text.compare(i, 2, "${") != 0) {
      result.text += text[i];
    } else {
      const size_t close = text.find('}', i);
      const std::string name = close == std::string::npos ? "" : text.substr(i + 2, close - i - 2);
      if (!is_variable_name(name)) {
        result.problems.push_back(
            "found ${ without the name of a variable and }; expected ${NAME}, or $${ for a plain ${");
        return result;
      }
      const char* value = std::getenv(name.c_str());
      if (value == nullptr) {
        result.problems.push_back("the environment variable " + name +
                                  " is not set; export it, or write $${" + name + "} for a plain ${" + name +
                                  "}");
      } else if (find_invalid_utf8(value) != std::string_view::npos) {
        result.problems.push_back("the environment variable " + name + " holds bytes that are not UTF-8");
      } else {
        result.text += value;
      }
      i = close;
    }
  }
  return result;
}

}  // namespace

std::string dotted_name(std::string_view pointer) {
  std::string dotted(pointer.substr(pointer.empty() ? 0 : 1));
  std::replace(dotted.begin(), dotted.end(), '/', '.');
  return dotted;
}

Document Document::from_file(const std::filesystem::path& file) {
  Document document;
  document.origins_[""] = {file.string(), std::filesystem::absolute(file).parent_path(), ""};
  std::vector<std::filesystem::path> chain;
  document.read_file(file, chain);
  return document;
}

Document Document::from_json(const Json& json, const std::filesystem::path& base) {
  Document document;
  const Origin origin{"config", std::filesystem::absolute(base), ""};
  document.origins_[""] = origin;
  if (!json.is_object()) {
    document.report_unreadable("config: expected a JSON object of sections");
    return document;
  }
  Json expanded = json;
  document.expand(expanded, origin, "");
  document.merge(document.json_, expanded, origin, "");
  return document;
}

void Document::read_file(const std::filesystem::path& file, std::vector<std::filesystem::path>& chain) {
  const std::string name = file.string();
  std::string text;
  try {
    text = finetune::read_file(file);
  } catch (const std::system_error& error) {
    return report_unreadable(name + ": cannot be read: " + error.code().message() + "; check the path");
  }
  JsonText parsed = parse_json_text(text);
  if (!parsed.error.empty()) return report_unreadable(name + ":" + parsed.error);
  const Origin origin{name, std::filesystem::absolute(file).parent_path(), ""};
  if (!parsed.value.is_object()) return report_unreadable(name + ": expected a JSON object of sections");
  for (const DuplicateKey& duplicate : parsed.duplicates) {
    report_line(name + ": " + duplicate.pointer + ": line " + std::to_string(duplicate.line) +
                " repeats the key of line " + std::to_string(duplicate.first_line) + "; keep one");
  }
  // "$schema" is for editors.
  parsed.value.erase("$schema");
  expand(parsed.value, origin, "");
  if (parsed.value.contains("extends")) {
    const Json base = parsed.value.at("extends");
    parsed.value.erase("extends");
    chain.push_back(std::filesystem::weakly_canonical(file));
    read_base(base, origin, chain);
    chain.pop_back();
  }
  merge(json_, parsed.value, origin, "");
}

void Document::read_base(const Json& name, const Origin& origin, std::vector<std::filesystem::path>& chain) {
  if (name.is_null()) return;
  const std::string where = origin.file + ": /extends: ";
  if (!name.is_string() || name.get_ref<const std::string&>().empty()) {
    return report_line(where + "found " + name.dump() + "; expected the path of a config file, as a string");
  }
  // Named from the file that names it, so that messages show a path that works from the working directory.
  const std::filesystem::path base =
      (std::filesystem::path(origin.file).parent_path() / name.get<std::string>()).lexically_normal();
  const auto real = std::filesystem::weakly_canonical(base);
  if (std::find(chain.begin(), chain.end(), real) != chain.end()) {
    return report_line(where + base.string() + " extends this file in turn; break the circle");
  }
  read_file(base, chain);
}

void Document::override_value(const std::string& dotted, const std::string& value) {
  std::string pointer = "/" + dotted;
  std::replace(pointer.begin(), pointer.end(), '.', '/');
  const Origin origin{"", std::filesystem::current_path(), value};
  if (find_invalid_utf8(value) != std::string_view::npos) {
    return report_line("--set " + dotted + ": the value is not UTF-8");
  }
  JsonText parsed = parse_json_text(value);
  if (!parsed.error.empty()) parsed.value = value;
  for (const DuplicateKey& duplicate : parsed.duplicates) {
    report_line("--set " + dotted_name(pointer + duplicate.pointer) + ": the key stands twice; keep one");
  }
  expand(parsed.value, origin, pointer);
  // An object around the value, for each part of the key, merges like a file that says only this.
  Json patch = std::move(parsed.value);
  for (size_t end = pointer.size(); end != 0;) {
    const size_t slash = pointer.rfind('/', end - 1);
    Json outer = Json::object();
    outer[pointer.substr(slash + 1, end - slash - 1)] = std::move(patch);
    patch = std::move(outer);
    end = slash;
  }
  merge(json_, patch, origin, "");
}

const Origin& Document::origin(const std::string& pointer) const {
  std::string around = pointer;
  while (true) {
    const auto found = origins_.find(around);
    if (found != origins_.end()) return found->second;
    around.resize(around.rfind('/'));
  }
}

void Document::report(const std::string& pointer, const std::string& message) {
  problems_.push_back(place(origin(pointer), pointer) + message);
}

void Document::report_absent(const std::string& pointer, const std::string& message) {
  problems_.push_back(place(origins_.at(""), pointer) + message);
}

void Document::report_unreadable(const std::string& message) {
  readable_ = false;
  report_line(message);
}

void Document::expand(Json& json, const Origin& origin, const std::string& pointer) {
  if (json.is_string()) {
    Expansion expansion = expand_variables(json.get_ref<const std::string&>());
    for (const std::string& problem : expansion.problems) report_line(place(origin, pointer) + problem);
    json = expansion.problems.empty() ? Json(std::move(expansion.text)) : Json(Json::value_t::discarded);
  } else if (json.is_object()) {
    for (auto& [key, value] : json.items()) expand(value, origin, extend_pointer(pointer, key));
  } else if (json.is_array()) {
    for (size_t i = 0; i < json.size(); ++i) expand(json[i], origin, pointer + "/" + std::to_string(i));
  }
}

void Document::merge(Json& target, const Json& patch, const Origin& origin, const std::string& pointer) {
  if (!pointer.empty()) origins_[pointer] = origin;
  if (!patch.is_object()) {
    target = patch;
    return;
  }
  if (!target.is_object()) target = Json::object();
  for (const auto& [key, value] : patch.items())
    merge(target[key], value, origin, extend_pointer(pointer, key));
}

}  // namespace finetune::config
