#pragma once

#include <string>

#include "finetune/batching/batcher.h"
#include "finetune/device/device.h"
#include "finetune/metrics/train_meter.h"
#include "finetune/model/classifier.h"
#include "finetune/optim/optimizer.h"
#include "finetune/report/page.h"
#include "finetune/report/progress.h"
#include "finetune/report/run_log.h"
#include "finetune/train/inputs.h"
#include "finetune/train/precision.h"
#include "finetune/train/update.h"
#include "recorded_update.h"
#include "resume.h"
#include "run_folder.h"
#include "step_log.h"
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
    Classifier& model;
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

  /// Fills model and optimizer from a Python script's state and counts epochs on from its.
  void restore(const PythonCheckpoint& checkpoint);

  /// Epochs done, those of a Python script before this run included.
  double epoch() const;

  /// Begins the log: `start`, or `resume` after what the checkpoint knew of.
  void open_log();

  /// Trains to the last step, evaluating, logging and saving on the way.
  void train();

  /// Saves the state as it is. Idempotent a step.
  void save();

  /// Whether `train.early_stopping` ended the training, or would end it now.
  bool stopped_early() const;

  const TrainState& state() const { return state_; }
  StepLog& log() { return *log_; }
  RunReport& report() { return report_; }
  double first_step_seconds() const { return first_step_seconds_; }

 private:
  /// An interval of the config, in steps; 0: never.
  struct Intervals {
    int64_t evaluate, log, save, unfreeze;
  };

  void train_to_the_end();
  void unfreeze();
  void step();
  std::optional<std::string> try_update();
  void make_room(const std::string& problem);
  [[noreturn]] void give_up(const std::string& problem) const;
  void settle_residency();
  void report_step();
  void pause_clock();
  void measure_product_rate_once();
  double flops_of(const StepBatch& batch) const;
  void evaluate_and_keep_best();
  Snapshot snapshot();
  void keep_if_best(const Json& metrics);
  double metric_of(const Json& metrics) const;
  bool is_better(double value, const BestResult& best, double margin = 0) const;
  ProgressState progress_state() const;
  bool last_step() const { return state_.step >= parts_.identity.num_steps; }

  Parts parts_;
  Intervals intervals_;
  TrainState state_;
  TrainMeter meter_;
  Update update_;
  RecordedUpdate recorded_;
  std::unique_ptr<StepLog> log_;
  RunReport report_;
  Stopwatch watch_;
  int64_t learning_depth_ = -1;  ///< see `learning_depth`; -1: not known yet
  int64_t log_length_ = 0;
  int64_t saved_step_ = -1;
  double first_step_seconds_ = 0;
  bool product_rate_measured_ = false;
  int64_t steps_done_ = 0;           ///< by this process
  int64_t most_tokens_at_once_ = 0;  ///< of a micro-batch so far
};

/// Whether that many evaluations without a gain end a training (`train.early_stopping`).
bool gains_no_more(int64_t evaluations_without_gain, const TrainConfig& config);

}  // namespace finetune
