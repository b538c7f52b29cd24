#include "finetune/report/progress.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

namespace finetune {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

ProgressState half_way() {
  return {.step = 50,
          .num_steps = 100,
          .epoch = 1.25,
          .num_epochs = 2.5,
          .loss = 0.5,
          .samples_per_second = 123.4};
}

TEST(ProgressLine, SaysEpochStepLossRateAndTimeLeft) {
  const std::string line = progress_line(half_way(), 75, 120);
  EXPECT_THAT(line, StartsWith(" 50% ["));
  for (const char* part : {"50/100", "epoch 1.25/2.5", "loss 0.5000", "123.4 rows/s", "1:15 left"}) {
    EXPECT_THAT(line, HasSubstr(part));
  }
}

TEST(ProgressLine, FillsTheBarByTheShareDone) {
  ProgressState state = half_way();
  const auto filled = [&](int64_t step) {
    state.step = step;
    const std::string line = progress_line(state, 1, 200);
    return std::pair(std::count(line.begin(), line.end(), '#'), line.find(']') - line.find('[') - 1);
  };
  const auto [none, width] = filled(0);
  EXPECT_EQ(none, 0);
  EXPECT_EQ(filled(50).first, static_cast<long>(width / 2));
  EXPECT_EQ(filled(100).first, static_cast<long>(width));
}

TEST(ProgressLine, NeverFillsTheTerminalsLastColumn) {
  for (int width = 2; width <= 200; ++width) {
    EXPECT_LT(static_cast<int>(progress_line(half_way(), 75, width).size()), width) << width;
  }
}

TEST(ProgressLine, LeavesTheBarOutWhereItHasNoRoom) {
  EXPECT_THAT(progress_line(half_way(), 75, 70), Not(HasSubstr("[")));
  EXPECT_THAT(progress_line(half_way(), 75, 70), HasSubstr("1:15 left"));
}

TEST(ProgressLine, HasNoLossBeforeTheFirstLogPoint) {
  ProgressState state = half_way();
  state.loss = NAN;
  EXPECT_THAT(progress_line(state, NAN, 120), Not(HasSubstr("loss")));
  EXPECT_THAT(progress_line(state, NAN, 120), HasSubstr("? left"));
}

TEST(ProgressLine, OfLargeNumbersHoldsNoControlCharacters) {
  const std::string line = progress_line({.step = 123456789,
                                          .num_steps = 987654321,
                                          .epoch = 12.34,
                                          .num_epochs = 1000,
                                          .loss = 1e9,
                                          .samples_per_second = 1e7},
                                         1e6, 160);
  for (const char c : line) EXPECT_TRUE(c >= ' ' && c < 127);
}

TEST(DurationText, ShowsHoursOnlyWhenThereAreAny) {
  EXPECT_EQ(duration_text(0), "0:00");
  EXPECT_EQ(duration_text(59.6), "1:00");
  EXPECT_EQ(duration_text(123), "2:03");
  EXPECT_EQ(duration_text(3723), "1:02:03");
  EXPECT_EQ(duration_text(360000), "100:00:00");
}

TEST(DurationText, OfWhatIsNotKnown) {
  for (const double seconds : {double(NAN), double(INFINITY), -1.0}) EXPECT_EQ(duration_text(seconds), "?");
}

}  // namespace
}  // namespace finetune
