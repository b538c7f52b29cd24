#include "tokenizer/score_reading.h"

#include <gtest/gtest.h>

namespace finetune {
namespace {

// The right-hand sides are what tokenizers 0.23 has after `Tokenizer.from_str`.
TEST(ScoreReading, EndsAtTheReferencesNeighbour) {
  EXPECT_EQ(score_as_reference_reads(-3.7467351734612158), -3.746735173461216);
  EXPECT_EQ(score_as_reference_reads(-7.7900335227124184), -7.790033522712419);
  EXPECT_EQ(score_as_reference_reads(-13.718556948949287), -13.718556948949288);
}

TEST(ScoreReading, LeavesNumbersOfFewDigits) {
  for (const double score : {0.0, -1.0, -2.5, 10.0, -12.25, 1e20, -1e-7, 1e300, 5e-324}) {
    EXPECT_EQ(score_as_reference_reads(score), score);
  }
}

}  // namespace
}  // namespace finetune
