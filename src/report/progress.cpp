#include "finetune/report/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "finetune/core/clock.h"

namespace finetune {
namespace {

constexpr double kRedrawSeconds = 0.1;

int terminal_width() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

template <typename... Values>
std::string format(const char* pattern, Values... values) {
  char buffer[256];
  std::snprintf(buffer, sizeof(buffer), pattern, values...);
  return buffer;
}

}  // namespace

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  const auto total = static_cast<long>(seconds + 0.5);
  if (total >= 3600) return format("%ld:%02ld:%02ld", total / 3600, total / 60 % 60, total % 60);
  return format("%ld:%02ld", total / 60, total % 60);
}

std::string progress_line(const ProgressState& state, double seconds_left, int width) {
  const double share =
      state.num_steps > 0 ? static_cast<double>(state.step) / static_cast<double>(state.num_steps) : 1.0;
  const std::string loss = std::isnan(state.loss) ? "" : format("  loss %.4f", state.loss);
  const std::string tail =
      format("  %lld/%lld  epoch %.2f/%.3g", static_cast<long long>(state.step),
             static_cast<long long>(state.num_steps), state.epoch, state.num_epochs) +
      loss + format("  %.1f rows/s  %s left", state.samples_per_second, duration_text(seconds_left).c_str());
  const int room = std::min(40, width - 8 - static_cast<int>(tail.size()));
  std::string line = format("%3d%%", static_cast<int>(share * 100));
  if (room >= 8) {
    const int full = static_cast<int>(share * room);
    line += " [" + std::string(static_cast<size_t>(full), '#') +
            std::string(static_cast<size_t>(room - full), '.') + "]";
  }
  line += tail;
  if (width > 0 && static_cast<int>(line.size()) >= width) line.resize(static_cast<size_t>(width - 1));
  return line;
}

Progress::Progress(bool quiet) : quiet_(quiet), terminal_(::isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() { clear(); }

void Progress::draw(const ProgressState& state) {
  const double now = monotonic_seconds();
  const double done = static_cast<double>(state.step - first_step_);
  const double left = static_cast<double>(state.num_steps - state.step);
  const double seconds_left = done > 0 ? (now - started_) / done * left : NAN;
  if (terminal_) {
    std::fprintf(stderr, "\r\033[K%s", progress_line(state, seconds_left, terminal_width()).c_str());
    drawn_ = true;
  } else {
    std::fprintf(stderr, "%s\n", progress_line(state, seconds_left, 120).c_str());
  }
  std::fflush(stderr);
  last_drawn_ = now;
}

void Progress::update(const ProgressState& state) {
  if (first_step_ < 0) {
    first_step_ = state.step;
    started_ = monotonic_seconds();
  }
  if (quiet_ || !terminal_ || monotonic_seconds() - last_drawn_ < kRedrawSeconds) return;
  draw(state);
}

void Progress::log_point(const ProgressState& state) {
  if (!quiet_) draw(state);
}

void Progress::clear() {
  if (!drawn_) return;
  std::fprintf(stderr, "\r\033[K");
  std::fflush(stderr);
  drawn_ = false;
}

}  // namespace finetune
