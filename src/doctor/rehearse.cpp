#include "rehearse.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "slow_ways.h"
#include "watch.h"

namespace finetune::doctor {
namespace {

constexpr double kStepsSeconds = 2.0;
constexpr double kOtherBatchSeconds = 1.0;
/// An update that is made several times for a comparison takes at most about this long.
constexpr double kComparisonSeconds = 0.2;

/// One step under every watch there is. It also warms up what the first step of a process has to.
void watched_step(Job& job, Rehearsal& rehearsal) {
  job.step(0);
  job.synchronize();
  Job::Trace trace;
  {
    const OperatorWatch operators;
    const MemoryWatch memory(job.device().device);
    try {
      const NoHostReads no_host_reads(*job.device().services);
      job.step(1, nullptr, &trace);
    } catch (const c10::Error& error) {
      rehearsal.read_error = error.what_without_backtrace();
    }
    rehearsal.launches = operators.launches();
    rehearsal.host_reads = operators.host_reads();
    if (memory.peak() > 0) rehearsal.activations = memory.peak();
  }
  job.synchronize();
  rehearsal.placement = audit_placement(job.placed(trace), job.device().device);
}

/// A second batch size, which tells what of a step is the same for any number of rows: a larger one where a
/// device may be short of work, a smaller one where a step is long already.
int64_t other_batch_size(const Job& job, bool asynchronous) {
  const int64_t rows = job.batch_size();
  const int64_t most = job.inputs().train.num_rows();
  if (asynchronous && rows * 2 <= most) return std::min(rows * 8, most);
  return std::max<int64_t>(1, rows / 4);
}

double mean_tokens(Job& job, int64_t steps) {
  double sum = 0;
  for (int64_t step = 0; step < steps; ++step) sum += job.tokens(step);
  return sum / static_cast<double>(steps);
}

}  // namespace

Rehearsal rehearse(Job& job, const DeviceMeasures& measures, std::optional<int64_t> available) {
  Rehearsal result{.device = job.device().device.str(), .precision = job.precision()};
  result.plan = job.plan();
  result.available = available;
  watched_step(job, result);

  result.times = time_steps(job, 0, kStepsSeconds, &result.steps);
  result.tokens = mean_tokens(job, result.steps);
  result.flops = job.flops(result.tokens);
  if (const double rate = measures.tflops(job.precision()); rate > 0) {
    result.product_share = result.flops / result.times.total / (rate * 1e12);
  }

  const int64_t rows = job.batch_size();
  job.set_batch_size(other_batch_size(job, measures.asynchronous));
  job.step(0);
  int64_t other_steps = 0;
  const StepTimes other = time_steps(job, 0, kOtherBatchSeconds, &other_steps);
  result.model = fit_step_model(result.device, result.tokens, result.times.total,
                                mean_tokens(job, other_steps), other.total);
  job.set_batch_size(rows);

  const double share = std::min(1.0, kComparisonSeconds / result.times.total);
  const auto comparison_rows =
      std::max<int64_t>(1, std::llround(share * static_cast<double>(job.batch_size())));
  result.slow_ways = measure_slow_ways(job, result.times, comparison_rows, measures);
  return result;
}

}  // namespace finetune::doctor
