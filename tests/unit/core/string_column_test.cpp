#include "finetune/core/string_column.h"

#include <gmock/gmock.h>

namespace finetune {
namespace {

using testing::ElementsAre;

TEST(StringColumn, GivesBackWhatCameIn) {
  StringColumn column{"x", "a label longer than what a string holds in itself", "", "x"};
  column.resize(6);
  EXPECT_THAT(column, ElementsAre("x", "a label longer than what a string holds in itself", "", "x", "", ""));
  EXPECT_EQ(&column[0], &column[3]) << "equal strings are one";
}

TEST(StringColumn, CopiesStandOnTheirOwn) {
  StringColumn copy;
  {
    StringColumn column{"x", "y"};
    copy = column;
    column.push_back("z");
  }
  copy.push_back("x");
  EXPECT_THAT(copy, ElementsAre("x", "y", "x"));
  const StringColumn moved = std::move(copy);
  EXPECT_THAT(moved, ElementsAre("x", "y", "x"));
}

TEST(StringColumn, MoreDistinctStringsThanAreShared) {
  StringColumn column;
  const size_t count = StringColumn::kMostShared + 100;
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < count; ++i) column.push_back(std::to_string(i));
  }
  ASSERT_EQ(column.size(), 2 * count);
  for (size_t i = 0; i < 2 * count; ++i) ASSERT_EQ(column[i], std::to_string(i % count));
}

}  // namespace
}  // namespace finetune
