#include "finetune/core/clock.h"

#include <time.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace finetune {
namespace {

double clock_seconds(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

double monotonic_seconds() { return clock_seconds(CLOCK_MONOTONIC); }

double seconds_since_process_start() {
  // Field 22 of /proc/self/stat: start time in clock ticks since boot. The name in field 2 may hold spaces.
  std::ifstream file("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  const size_t after_name = text.rfind(')');
  if (after_name == std::string::npos) return 0;
  size_t position = after_name + 1;
  for (int field = 3; field <= 22 && position != std::string::npos; ++field) {
    position = text.find(' ', position + (field == 3 ? 0 : 1));
  }
  if (position == std::string::npos) return 0;
  const double ticks = std::strtod(text.c_str() + position, nullptr);
  return clock_seconds(CLOCK_BOOTTIME) - ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

std::string utc_timestamp() { return utc_timestamp(::time(nullptr)); }

std::string utc_timestamp(std::time_t time) {
  tm parts{};
  ::gmtime_r(&time, &parts);
  char text[32];
  ::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace finetune
