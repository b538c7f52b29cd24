#include "finetune/config/load.h"
#include "key_table.h"

namespace finetune {
namespace {

using config::Key;

void write_section(const std::vector<Key>& keys, const RunConfig& config, Json& out) {
  for (const Key& key : keys) {
    if (key.is_section()) {
      write_section(key.children, config, out[key.name] = Json::object());
    } else {
      out[key.name] = key.write(config);
    }
  }
}

/// `schema`, or null: null unsets a key that a base file sets.
Json nullable(Json schema) {
  if (schema.contains("enum")) {
    schema["enum"].push_back(nullptr);
  } else if (schema.contains("anyOf")) {
    schema["anyOf"].push_back({{"type", "null"}});
  } else {
    schema["type"] = Json::array({schema["type"], "null"});
  }
  return schema;
}

Json section_schema(const std::vector<Key>& keys, const RunConfig& defaults);

Json key_schema(const Key& key, const RunConfig& defaults) {
  Json schema = key.is_section() ? section_schema(key.children, defaults) : key.schema;
  if (!key.required) schema = nullable(std::move(schema));
  if (!key.required && !key.is_section()) schema["default"] = key.write(defaults);
  schema["description"] = key.doc;
  return schema;
}

Json section_schema(const std::vector<Key>& keys, const RunConfig& defaults) {
  Json properties = Json::object();
  for (const Key& key : keys) properties[key.name] = key_schema(key, defaults);
  return {{"type", "object"}, {"additionalProperties", false}, {"properties", properties}};
}

/// What a file must hold that extends no other: the required keys, and the sections around them.
Json required_keys(const std::vector<Key>& keys) {
  Json names = Json::array();
  Json sections = Json::object();
  for (const Key& key : keys) {
    Json below = required_keys(key.children);
    if (!key.required && below.empty()) continue;
    names.push_back(key.name);
    if (!below.empty()) sections[key.name] = std::move(below);
  }
  if (names.empty()) return Json::object();
  Json result = {{"required", names}};
  if (!sections.empty()) {
    for (auto& [name, section] : sections.items()) section["type"] = "object";
    result["properties"] = sections;
  }
  return result;
}

}  // namespace

Json to_json(const RunConfig& config) {
  Json result = Json::object();
  write_section(config::key_table(), config, result);
  return result;
}

Json config_schema() {
  Json schema = {
      {"$schema", "https://json-schema.org/draft/2020-12/schema"},
      {"title", "finetune config"},
      {"description",
       "A training run. Relative paths start at the file's folder; ${NAME} in a string reads the environment "
       "($${NAME} is the literal text); null leaves a key unset. Comments are allowed."}};
  schema.update(section_schema(config::key_table(), RunConfig{}));
  Json own = {{"$schema", {{"type", "string"}, {"description", "The schema's address, for editors."}}},
              {"extends",
               {{"type", Json::array({"string", "null"})},
                {"minLength", 1},
                {"description", "A config file below this one: what is not set here comes from there."}}}};
  own.update(schema["properties"]);
  schema["properties"] = std::move(own);
  Json extends = {{"required", Json::array({"extends"})},
                  {"properties", {{"extends", {{"type", "string"}}}}}};
  schema["anyOf"] = Json::array({std::move(extends), required_keys(config::key_table())});
  return schema;
}

}  // namespace finetune
