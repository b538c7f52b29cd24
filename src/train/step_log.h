#pragma once

#include <deque>
#include <filesystem>
#include <optional>

#include "finetune/config/run_config.h"
#include "finetune/device/device.h"
#include "finetune/metrics/train_meter.h"
#include "finetune/report/event_file.h"
#include "finetune/report/progress.h"
#include "finetune/report/run_log.h"

namespace finetune {

/// What a run says while it trains: metrics.jsonl and the progress line. A log point starts the copy of the
/// meter's sums and goes on training; its lines are written when the values have arrived, in order, and
/// before anything else is.
class StepLog {
 public:
  struct Options {
    std::filesystem::path file;
    int64_t length = 0;  ///< bytes of the file to keep (see RunLog)
    OnNonfinite on_nonfinite = OnNonfinite::kAbort;
    bool scales_loss = false;
    bool quiet = false;
    bool tensorboard = false;  ///< write an event file beside `file`
    std::optional<int64_t> resumed_at;
  };
  StepLog(const OpenDevice& device, const Options& options);

  /// Where a log point is in the run.
  struct Point {
    ProgressState progress;
    bool interval_ends = false;  ///< a `train` line is due
    bool epoch_ends = false;     ///< an `epoch` line is due
    double train_seconds = 0;
  };

  /// Counts a step for the rates of the next `train` line.
  void count_step(int64_t num_rows, int64_t num_tokens, double data_seconds, double flops);
  /// Operations a second that the device reaches at products alone: what `flops_fraction` is a fraction of.
  void set_product_rate(std::optional<double> rate) { product_rate_ = rate; }
  /// Begins the interval whose rates the next `train` line gives.
  void begin_interval(double train_seconds);
  /// Sends the meter's sums to the host and begins the meter's next interval or epoch. Does not wait.
  void add(const Point& point, TrainMeter& meter);
  /// Writes what has arrived. Throws `DivergenceError` where updates were not finite and that is to end the
  /// run.
  void poll();
  /// After each step.
  void show(ProgressState state);

  /// Waits for all log points before, then appends an event of another kind (see RunLog::write).
  void write(const char* event, const Json& fields);
  /// The same, then makes the file durable: its length in bytes.
  int64_t sync();
  /// Clears the progress bar, so that a message can be printed.
  void clear_progress() { progress_.clear(); }

 private:
  struct Pending {
    Point point;
    AsyncRead sums;
    Json rates;  ///< the fields of the `train` line that the host knows
  };
  Json rates(double train_seconds) const;
  void settle();
  void write_front();
  void record(const char* event, const Json& fields);
  void check_finite(const TrainMeter::Values& values, int64_t step) const;

  const OpenDevice& device_;
  OnNonfinite on_nonfinite_;
  bool scales_loss_;
  RunLog file_;
  std::optional<EventFile> events_;
  Progress progress_;
  std::deque<Pending> pending_;
  std::optional<double> product_rate_;
  double last_loss_;
  // Since the last `train` line.
  double interval_started_ = 0;
  double interval_data_seconds_ = 0;
  int64_t interval_rows_ = 0;
  int64_t interval_tokens_ = 0;
  double interval_flops_ = 0;
};

}  // namespace finetune
