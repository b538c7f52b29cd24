#pragma once

#include <ctime>
#include <string>

namespace finetune {

/// Seconds on a clock that never jumps; its zero is arbitrary.
double monotonic_seconds();

/// Seconds since the kernel started this process, dynamic loading included.
double seconds_since_process_start();

/// Now in UTC as `2026-01-31T12:34:56Z`.
std::string utc_timestamp();
/// Another time (seconds since 1970) the same way.
std::string utc_timestamp(std::time_t time);

}  // namespace finetune
