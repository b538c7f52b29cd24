#include "finetune/data/label_map.h"

#include <gmock/gmock.h>

#include "finetune/core/error.h"

namespace finetune {
namespace {

using testing::ElementsAre;

TEST(LabelMap, LearnsByteOrder) {
  const LabelMap map = LabelMap::learn({"sport", "Art", "sport", "art", "\xC3\xA9t\xC3\xA9", "10"});
  EXPECT_THAT(map.names(), ElementsAre("10", "Art", "art", "sport", "\xC3\xA9t\xC3\xA9"));
  EXPECT_EQ(map.id("art"), 2);
  EXPECT_EQ(map.name(3), "sport");
  EXPECT_FALSE(map.id("Sport"));
}

TEST(LabelMap, LearnsNumericOrderWhereAllAreIntegers) {
  EXPECT_THAT(LabelMap::learn({"10", "9", "-1", "9", "0"}).names(), ElementsAre("-1", "0", "9", "10"));
  EXPECT_THAT(LabelMap::learn({"10", "9", "9.5"}).names(), ElementsAre("10", "9", "9.5"));
  EXPECT_THAT(LabelMap::learn({"01", "1", "0"}).names(), ElementsAre("0", "01", "1"));
}

TEST(LabelMap, RowsWithoutLabelTeachNothing) {
  EXPECT_THAT(LabelMap::learn({"", "b", "", "a"}).names(), ElementsAre("a", "b"));
  EXPECT_EQ(LabelMap::learn({}).size(), 0);
}

TEST(LabelMap, KeepsAGivenOrder) {
  const LabelMap map({"z", "a"});
  EXPECT_EQ(map.id("z"), 0);
  EXPECT_EQ(map.id("a"), 1);
  EXPECT_THROW(map.name(2), std::out_of_range);
}

TEST(LabelMap, RefusesDuplicateAndEmptyNames) {
  try {
    LabelMap({"a", "b", "a"});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_STREQ(
        error.what(),
        "label 'a' occurs twice (as 0 and 2), expected different names; remove one from task.labels");
  }
  EXPECT_THROW(LabelMap({"a", ""}), ConfigError);
}

}  // namespace
}  // namespace finetune
