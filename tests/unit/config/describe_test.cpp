#include "finetune/config/describe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/config_files.h"

namespace finetune {
namespace {

using testing::HasSubstr;

class Describe : public ConfigFileTest {};

TEST_F(Describe, WhatItWritesIsTheSameConfig) {
  write("bert.json",
        R"({"model": {"path": "./encoder"}, "data": {"train": "a.csv"}, "train": {"batch_size": 8},
                         "output_dir": "runs/$${HOME}"})");
  const RunConfig config = load_run_config("bert.json", {});
  write("commented.json", commented_config(config));
  EXPECT_EQ(load_run_config("commented.json", {}), config);
}

TEST_F(Describe, EachKeyHasItsMeaningAndItsDefault) {
  write("bert.json",
        R"({"model": {"path": "./encoder"}, "data": {"train": "a.csv"}, "train": {"batch_size": 8}})");
  const std::string text = commented_config(load_run_config("bert.json", {}));
  EXPECT_THAT(text, HasSubstr("    // Rows of an update, over all devices and micro-batches. Default: 32.\n"
                              "    \"batch_size\": 8,\n"));
  EXPECT_THAT(text, HasSubstr("    // The update rule. (the default)\n    \"type\": \"adamw\",\n"));
  EXPECT_THAT(text, HasSubstr("  // The encoder.\n  \"model\": {\n"));
  for (size_t begin = 0; begin < text.size(); begin = text.find('\n', begin) + 1) {
    const std::string line = text.substr(begin, text.find('\n', begin) - begin);
    if (line.find("// ") == std::string::npos) continue;
    EXPECT_LE(line.size(), 100u) << line;
  }
}

TEST(ConfigText, IsJsonAKeyALine) {
  const Json config = Json::parse(R"({"seed": 1, "task": {"labels": ["a", "b"], "type": "x"}, "empty": {}})");
  const std::string text = config_text(config);
  EXPECT_EQ(Json::parse(text), config);
  EXPECT_THAT(text, HasSubstr("  \"task\": {\n    \"labels\": [\"a\",\"b\"],\n    \"type\": \"x\"\n  },\n"));
}

}  // namespace
}  // namespace finetune
