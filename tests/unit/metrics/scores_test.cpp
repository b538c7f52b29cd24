#include "finetune/metrics/scores.h"

#include <gmock/gmock.h>

#include "finetune/metrics/tagging.h"

namespace finetune {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// tests/parity/task_metrics_test.py compares whole evaluations with scikit-learn, scipy and seqeval.

TEST(AreaUnderRoc, CountsPairsInOrderAndTiesHalf) {
  EXPECT_DOUBLE_EQ(*area_under_roc({0.1, 0.4, 0.4, 0.8}, {false, false, true, true}), 3.5 / 4);
}

TEST(AreaUnderRoc, NeedsBothKinds) { EXPECT_FALSE(area_under_roc({1, 2}, {true, true}).has_value()); }

TEST(Correlations, OfALineAndOfNothingThatVaries) {
  EXPECT_DOUBLE_EQ(pearson_correlation({1, 2, 3}, {-2, -4, -6}), -1);
  EXPECT_EQ(pearson_correlation({1, 1}, {2, 3}), 0);
  EXPECT_EQ(pearson_correlation({}, {}), 0);
}

TEST(Correlations, SpearmanGivesTiesTheirMeanRank) {
  EXPECT_DOUBLE_EQ(spearman_correlation({1, 10, 100}, {1, 2, 3}), 1);
  EXPECT_DOUBLE_EQ(spearman_correlation({1, 1, 2}, {1, 2, 3}), pearson_correlation({1.5, 1.5, 3}, {1, 2, 3}));
}

TEST(Entities, AreReadAsConllevalReadsThem) {
  EXPECT_THAT(entities_of({"B-P", "I-P", "O", "I-L", "I-P", "B-P"}),
              ElementsAre(Entity{"P", 0, 1}, Entity{"L", 3, 3}, Entity{"P", 4, 4}, Entity{"P", 5, 5}));
  EXPECT_THAT(entities_of({"S-P", "B-P", "E-P", "E-P"}),
              ElementsAre(Entity{"P", 0, 0}, Entity{"P", 1, 2}, Entity{"P", 3, 3}));
  EXPECT_THAT(entities_of({"B", "I"}), ElementsAre(Entity{"_", 0, 1}));
  EXPECT_THAT(entities_of({"O", "O"}), IsEmpty());
}

TEST(Entities, AreNamedByTagsOfAScheme) {
  EXPECT_TRUE(names_entities({"O", "B-PER", "I-PER"}));
  EXPECT_FALSE(names_entities({"O"}));
  EXPECT_FALSE(names_entities({"NN", "VB"}));
  EXPECT_FALSE(names_entities({"O", "INTJ"}));
}

}  // namespace
}  // namespace finetune
