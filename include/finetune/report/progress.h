#pragma once

#include <cstdint>
#include <string>

namespace finetune {

/// What the progress line shows.
struct ProgressState {
  int64_t step = 0;
  int64_t num_steps = 0;
  double epoch = 0;
  double num_epochs = 0;
  double loss = 0;  ///< of the last log point; NaN before the first
  double samples_per_second = 0;
};

/// A progress bar on stderr where that is a terminal (redrawn at most ten times a second, as wide as the
/// terminal), else a plain line at each log point. Says nothing when quiet.
class Progress {
 public:
  explicit Progress(bool quiet);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// After each step.
  void update(const ProgressState& state);
  /// At a log point.
  void log_point(const ProgressState& state);
  /// Clears the bar, so that a message can be printed; the next update draws it again.
  void clear();

 private:
  void draw(const ProgressState& state);

  bool quiet_;
  bool terminal_;
  bool drawn_ = false;
  double last_drawn_ = 0;
  double started_ = 0;
  int64_t first_step_ = -1;
};

/// The text of the bar for a given width, without control characters.
std::string progress_line(const ProgressState& state, double seconds_left, int width);

/// "1:02:03", "2:03", or "?" where it is not known.
std::string duration_text(double seconds);

}  // namespace finetune
