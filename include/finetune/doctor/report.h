#pragma once

#include <optional>
#include <string>
#include <vector>

#include "finetune/core/json.h"
#include "finetune/doctor/audit.h"
#include "finetune/doctor/facts.h"
#include "finetune/doctor/finding.h"
#include "finetune/doctor/measure.h"
#include "finetune/train/memory_plan.h"

namespace finetune::doctor {

/// Mean seconds of a training step, as the host sees them. On a device that works beside the host, `forward`,
/// `backward` and `update` are the time to queue them, and `wait` is what the device needs longer.
struct StepTimes {
  double total = 0;
  double data = 0;
  double forward = 0;
  double backward = 0;
  double update = 0;
  double wait = 0;
};

/// A step's time as a straight line: seconds = fixed + tokens * a_token.
struct StepModel {
  std::string device{};
  double fixed = 0;
  double a_token = 0;

  double seconds(double tokens) const { return fixed + tokens * a_token; }
};

/// The line through two measured steps; neither part is ever negative.
StepModel fit_step_model(const std::string& device, double tokens1, double seconds1, double tokens2,
                         double seconds2);

/// A way of training that people fall into, against this program's, on the same rows.
struct SlowWay {
  std::string name{};
  std::string how{};              ///< what was done
  std::optional<double> ratio{};  ///< its cost to that of a plain step, 1: none
  std::string of = "time";        ///< what the ratio is of: "time" or "memory"
  std::string note{};             ///< why there is no ratio, or what it means
};

/// A few real steps of the job on one device.
struct Rehearsal {
  std::string device{};
  std::string precision{};  ///< "fp32", ...
  std::vector<PlacementRow> placement{};
  int64_t steps = 0;  ///< that were timed
  double tokens = 0;  ///< a step, mean
  StepTimes times{};
  int64_t launches = 0;      ///< operators with work of their own, a step
  int64_t host_reads = 0;    ///< a step
  std::string read_error{};  ///< what the device says where a step reads though reads are forbidden
  double flops = 0;          ///< a step's products
  double product_share = 0;  ///< of the rate that the device's products alone reach; 0: not known
  StepModel model{};
  MemoryPlan plan{};
  std::optional<int64_t> available{};    ///< bytes, before the job was there
  std::optional<int64_t> activations{};  ///< bytes, measured: activations and temporaries at their peak
  std::vector<SlowWay> slow_ways{};
};

/// The job of a config.
struct JobReport {
  int64_t rows = 0;
  int64_t batch_size = 0;
  double tokens_a_row = 0;
  int64_t max_length = 0;
  int64_t steps = 0;  ///< of the whole run
  int64_t parameters = 0;
  bool rows_were_cut = false;  ///< the data set is large: its first rows stand for it
  std::vector<Rehearsal> rehearsals{};
};

/// Everything the doctor has to say.
struct Report {
  MachineFacts facts;
  std::string requested{};  ///< device
  bool usable = true;       ///< whether the requested device can be used
  int64_t threads = 0;
  std::vector<DeviceMeasures> devices{};
  std::optional<JobReport> job{};
  std::vector<Finding> findings{};
  double seconds = 0;  ///< what all of it took

  /// Whether nothing is broken.
  bool healthy() const;
};

/// Which device is faster for the job and by how much; where a GPU loses, the batch size from which it wins.
/// tokens_a_row: mean; models: of each device, the requested one first.
std::vector<Finding> choose_device(const std::vector<StepModel>& models, double tokens_a_row,
                                   int64_t batch_size);

/// What a GPU could gain at most, where there is none to measure: a step cannot take less than its launches.
/// steps: of the whole run; measures: of the CPU, whose time to dispatch an operation a GPU's host needs too.
Finding judge_without_gpu(const Rehearsal& rehearsal, int64_t steps, const DeviceMeasures& measures);

/// Placement, host reads, waits, memory and precision of a rehearsal. measures: of the same device.
std::vector<Finding> judge_rehearsal(const Rehearsal& rehearsal, const DeviceMeasures& measures);

/// Whether the device's products run as they should: `broken` where a GPU is not kept busy by products alone.
std::vector<Finding> judge_products(const DeviceMeasures& measures);

std::string to_text(const Report& report);
Json to_json(const Report& report);

}  // namespace finetune::doctor
