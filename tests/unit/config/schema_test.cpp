#include <gtest/gtest.h>

#include <functional>

#include "finetune/config/load.h"

namespace finetune {
namespace {

/// Visits every value (not section) of the schema with its JSON pointer in a config.
void for_each_value(const Json& section, const std::string& pointer,
                    const std::function<void(const std::string&, const Json&)>& visit) {
  for (const auto& [name, schema] : section.at("properties").items()) {
    const std::string here = pointer + "/" + name;
    if (here == "/$schema" || here == "/extends") continue;
    if (schema.contains("properties") && !schema.contains("default")) {
      for_each_value(schema, here, visit);
    } else {
      visit(here, schema);
    }
  }
}

TEST(Schema, HasExactlyTheKeysThatArePrinted) {
  const Json printed = to_json(RunConfig{});
  Json described;
  for_each_value(config_schema(), "", [&](const std::string& pointer, const Json&) {
    described[Json::json_pointer(pointer)] = printed.at(Json::json_pointer(pointer));
  });
  EXPECT_EQ(described, printed);
}

TEST(Schema, EveryKeyHasADescriptionAndADefaultUnlessRequired) {
  const Json printed = to_json(RunConfig{});
  for_each_value(config_schema(), "", [&](const std::string& pointer, const Json& schema) {
    EXPECT_GT(schema.value("description", "").size(), 10u) << pointer;
    const bool required = pointer == "/model/path" || pointer == "/data/train";
    EXPECT_EQ(schema.contains("default"), !required) << pointer;
    if (!required) {
      EXPECT_EQ(schema.at("default"), printed.at(Json::json_pointer(pointer))) << pointer;
    }
  });
}

TEST(Schema, SectionsTakeNoOtherKeys) {
  const Json schema = config_schema();
  EXPECT_EQ(schema.at("$schema"), "https://json-schema.org/draft/2020-12/schema");
  EXPECT_EQ(schema.at("additionalProperties"), false);
  EXPECT_EQ(schema.at("properties").at("optimizer").at("additionalProperties"), false);
}

}  // namespace
}  // namespace finetune
