#pragma once

#include <string>

#include "finetune/batching/batcher.h"
#include "finetune/device/device.h"
#include "finetune/metrics/train_meter.h"
#include "finetune/model/classifier.h"
#include "finetune/optim/optimizer.h"
#include "finetune/report/progress.h"
#include "finetune/report/run_log.h"
#include "finetune/train/inputs.h"
#include "finetune/train/precision.h"
#include "resume.h"
#include "run_folder.h"
#include "train_state.h"

namespace finetune {

/// Seconds that count as training: paused for evaluation and saving.
class Stopwatch {
 public:
  explicit Stopwatch(double seconds) : seconds_(seconds) {}
  void start();
  void pause();
  bool running() const { return started_ >= 0; }
  double seconds() const;

 private:
  double seconds_;
  double started_ = -1;
};

/// The loop and what it touches. Lives inside `run`; everything it holds is on the device already.
class Trainer {
 public:
  struct Parts {
    const RunConfig& config;
    const OpenDevice& device;
    const Inputs& inputs;
    SequenceClassifier& model;
    Optimizer& optimizer;
    Batcher& batcher;
    RunFolder& folder;
    const RunIdentity& identity;
    const ResolvedPrecision& precision;
    bool quiet;
  };

  explicit Trainer(const Parts& parts);

  /// Fills model, optimizer and meter from the checkpoint and takes its position. What another run knows as
  /// its best is forgotten, unless it is this very checkpoint.
  void restore(const VerifiedCheckpoint& checkpoint);

  /// Begins the log: `start`, or `resume` after what the checkpoint knew of.
  void open_log();

  /// Trains to the last step, evaluating, logging and saving on the way.
  void train();

  /// Saves the state as it is. Idempotent a step.
  void save();

  const TrainState& state() const { return state_; }
  RunLog& log() { return *log_; }
  double first_step_seconds() const { return first_step_seconds_; }

 private:
  /// An interval of the config, in steps; 0: never.
  struct Intervals {
    int64_t evaluate, log, save;
  };

  void step();
  void backward(const StepBatch& batch);
  void report_step();
  void log_train_event(const TrainMeter::Values& values);
  void handle_nonfinite(const TrainMeter::Values& values) const;
  void evaluate_and_keep_best();
  Snapshot snapshot();
  bool improves(const Json& metrics, double* value) const;
  double epoch() const;
  ProgressState progress_state() const;
  bool last_step() const { return state_.step >= parts_.identity.num_steps; }

  Parts parts_;
  Intervals intervals_;
  TrainState state_;
  TrainMeter meter_;
  at::Tensor rng_;  ///< [2] int64 on the device: seed, step
  std::unique_ptr<RunLog> log_;
  Progress progress_;
  Stopwatch watch_;
  int64_t log_length_ = 0;
  int64_t saved_step_ = -1;
  double first_step_seconds_ = 0;
  double last_loss_;
  // Since the last log point, for rates.
  double interval_started_ = 0;
  double interval_data_seconds_ = 0;
  int64_t interval_rows_ = 0;
  int64_t interval_tokens_ = 0;
};

}  // namespace finetune
