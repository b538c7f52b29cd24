#include "finetune/core/clock.h"

#include <gtest/gtest.h>
#include <time.h>
#include <unistd.h>

#include <regex>

namespace finetune {
namespace {

const double kLoaded = monotonic_seconds();

TEST(Clock, NeverRunsBack) {
  double before = monotonic_seconds();
  for (int i = 0; i < 10000; ++i) {
    const double now = monotonic_seconds();
    ASSERT_GE(now, before);
    before = now;
  }
}

TEST(Clock, ProcessStartedBeforeItsCodeRanAndAfterTheMachine) {
  const double since_load = monotonic_seconds() - kLoaded;
  const double since_start = seconds_since_process_start();
  const double tick = 1.0 / static_cast<double>(::sysconf(_SC_CLK_TCK));
  EXPECT_GE(since_start, since_load - tick);
  timespec uptime{};
  ::clock_gettime(CLOCK_BOOTTIME, &uptime);
  EXPECT_LT(since_start, static_cast<double>(uptime.tv_sec));
}

TEST(Clock, TimestampIsNowInUtc) {
  const time_t before = ::time(nullptr);
  const std::string text = utc_timestamp();
  const time_t after = ::time(nullptr);
  ASSERT_TRUE(std::regex_match(text, std::regex(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)"))) << text;
  tm parts{};
  ASSERT_NE(::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts), nullptr);
  const time_t stated = ::timegm(&parts);
  EXPECT_GE(stated, before);
  EXPECT_LE(stated, after);
}

}  // namespace
}  // namespace finetune
