#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>

#include "finetune/doctor/report.h"
#include "numbers.h"

namespace finetune::doctor {
namespace {

/// What queueing one operation on a GPU takes its host, roughly and on any of them: where there is a GPU it
/// is measured instead.
constexpr double kTypicalLaunchSeconds = 5e-6;
/// Devices nearer to each other than this are called equal.
constexpr double kClearlyFaster = 1.1;
constexpr double kSoundUtilization = 0.7;
/// Below it, or for a run shorter than this, another machine is not worth its trouble.
constexpr double kWorthwhileGain = 4;
constexpr double kShortRunSeconds = 60;

bool is_host(const std::string& device) { return device == "cpu"; }

/// The smallest power of two of rows from which `gpu` takes less time than `cpu`; nothing where it never
/// does.
std::optional<int64_t> break_even_rows(const StepModel& gpu, const StepModel& cpu, double tokens_a_row) {
  if (gpu.a_token >= cpu.a_token) return std::nullopt;
  const double tokens = std::max(0.0, (gpu.fixed - cpu.fixed) / (cpu.a_token - gpu.a_token));
  const double rows = std::max(1.0, std::ceil(tokens / std::max(tokens_a_row, 1.0)));
  if (rows > 1e6) return std::nullopt;
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(rows)));
}

std::string step_text(const StepModel& model, double tokens) {
  return seconds_text(model.seconds(tokens)) + " on " + model.device;
}

Finding too_small(const StepModel& gpu, const StepModel& cpu, double tokens_a_row, int64_t batch_size) {
  const double tokens = tokens_a_row * static_cast<double>(batch_size);
  Finding finding{.severity = Severity::kSlow,
                  .id = "too-small-for-gpu",
                  .seen = "a step of " + std::to_string(batch_size) + " rows takes " +
                          step_text(cpu, tokens) + " and " + step_text(gpu, tokens) + ": the CPU is " +
                          ratio_text(gpu.seconds(tokens) / cpu.seconds(tokens)) + " times as fast",
                  .why = "this model and batch are too small for the GPU: " + seconds_text(gpu.fixed) +
                         " of its " + seconds_text(gpu.seconds(tokens)) +
                         " are launches, the same for any batch",
                  .remedy = "--set device=cpu"};
  if (const auto rows = break_even_rows(gpu, cpu, tokens_a_row)) {
    finding.remedy +=
        ", or --set train.batch_size=" + std::to_string(*rows) + ", from where " + gpu.device + " is faster";
  } else {
    finding.remedy += "; no batch size makes " + gpu.device + " faster";
  }
  return finding;
}

void judge_memory(const Rehearsal& rehearsal, std::vector<Finding>& findings) {
  if (!rehearsal.available || rehearsal.plan.total() <= *rehearsal.available) return;
  findings.push_back(
      {.severity = Severity::kBroken,
       .id = "memory",
       .seen = rehearsal.device + ": the run needs " + to_text(rehearsal.plan, rehearsal.available),
       .why = "training ends with out of memory",
       .remedy = "--set train.micro_batch_size=1 (then 2, 4, ...), or lower data.max_length"});
}

void judge_reads(const Rehearsal& rehearsal, std::vector<Finding>& findings) {
  if (rehearsal.host_reads == 0 && rehearsal.read_error.empty()) return;
  findings.push_back(
      {.severity = Severity::kSlow,
       .id = "host-reads",
       .seen = rehearsal.device + ": a step reads " + std::to_string(rehearsal.host_reads) + " values back" +
               (rehearsal.read_error.empty() ? "" : " (" + rehearsal.read_error + ")"),
       .why = "each read makes the host wait until the device has done all that is queued",
       .remedy = "this is a fault of the program: please report it with the output of --json"});
}

}  // namespace

StepModel fit_step_model(const std::string& device, double tokens1, double seconds1, double tokens2,
                         double seconds2) {
  double slope = tokens1 != tokens2 ? (seconds1 - seconds2) / (tokens1 - tokens2) : seconds1 / tokens1;
  slope = std::clamp(slope, 0.0, seconds1 / tokens1);
  return {.device = device, .fixed = std::max(0.0, seconds1 - slope * tokens1), .a_token = slope};
}

std::vector<Finding> choose_device(const std::vector<StepModel>& models, double tokens_a_row,
                                   int64_t batch_size) {
  if (models.size() < 2) return {};
  const double tokens = tokens_a_row * static_cast<double>(batch_size);
  const StepModel& asked = models.front();
  const StepModel& best = *std::min_element(models.begin(), models.end(), [&](const auto& a, const auto& b) {
    return a.seconds(tokens) < b.seconds(tokens);
  });
  const double gain = asked.seconds(tokens) / best.seconds(tokens);
  if (gain >= kClearlyFaster) {
    if (is_host(best.device)) return {too_small(asked, best, tokens_a_row, batch_size)};
    return {{.severity = Severity::kSlow,
             .id = "slower-device",
             .seen = "a step takes " + step_text(asked, tokens) + " and " + step_text(best, tokens),
             .why = best.device + " is " + ratio_text(gain) + " times as fast for this job",
             .remedy = "--set device=" + best.device}};
  }
  std::string others;
  for (const StepModel& model : models) {
    if (&model == &asked) continue;
    others += (others.empty() ? "" : ", ") + ratio_text(model.seconds(tokens) / asked.seconds(tokens)) +
              " times as fast as " + model.device;
  }
  return {{.severity = Severity::kGood,
           .id = "right-device",
           .seen = asked.device + " is the right device for this job: " + others}};
}

Finding judge_without_gpu(const Rehearsal& rehearsal, int64_t steps, const DeviceMeasures& measures) {
  const double a_launch = measures.launch_seconds + kTypicalLaunchSeconds;
  const double floor = static_cast<double>(rehearsal.launches) * a_launch;
  const double gain = rehearsal.times.total / std::max(floor, 1e-9);
  const double run = static_cast<double>(steps) * rehearsal.times.total;
  Finding finding{.severity = Severity::kNote,
                  .id = "no-gpu-to-compare",
                  .seen = "a step takes " + seconds_text(rehearsal.times.total) + " here and queues " +
                          std::to_string(rehearsal.launches) +
                          " operations: a GPU, of which there is none here to "
                          "measure, needs some " +
                          seconds_text(a_launch) + " for each, so " + seconds_text(floor) + " at least"};
  if (gain < kWorthwhileGain) {
    finding.why = "this model and batch are too small for a GPU: its time would go into launches";
    finding.remedy = "stay on the CPU; for a GPU --set train.batch_size=512 or more";
  } else if (run < kShortRunSeconds) {
    finding.why = "this model and batch are too small for a GPU: the whole run takes " + seconds_text(run) +
                  " here, and a GPU takes seconds to start";
    finding.remedy = "stay on the CPU";
  } else {
    finding.why = "launches would let a GPU be up to " + ratio_text(gain) + " times as fast";
    finding.remedy = "for long runs take a machine with a GPU";
  }
  return finding;
}

std::vector<Finding> judge_rehearsal(const Rehearsal& rehearsal, const DeviceMeasures& measures) {
  std::vector<Finding> findings;
  for (const PlacementRow& row : rehearsal.placement) {
    if (row.ok) continue;
    findings.push_back(
        {.severity = Severity::kBroken,
         .id = "placement",
         .seen = row.what + " are not all on " + rehearsal.device,
         .why = "operands on two devices fail, or are copied in every step",
         .remedy = "this is a fault of the program: please report it with the output of --json"});
  }
  judge_reads(rehearsal, findings);
  judge_memory(rehearsal, findings);
  const StepTimes& times = rehearsal.times;
  if (times.data > 0.05 * times.total) {
    findings.push_back({.severity = Severity::kSlow,
                        .id = "data-wait",
                        .seen = rehearsal.device + ": " + percent_text(times.data / times.total) +
                                " of a step is spent on getting its batch",
                        .why = "the batch is not ready when the device is",
                        .remedy = "a larger train.batch_size, which has fewer batches to make"});
  }
  if (measures.asynchronous && times.wait < 0.1 * times.total) {
    findings.push_back({.severity = Severity::kSlow,
                        .id = "launch-bound",
                        .seen = rehearsal.device + ": the device is done when the last of " +
                                std::to_string(rehearsal.launches) + " operations is queued, " +
                                seconds_text(times.total) + " a step; its products run at " +
                                percent_text(rehearsal.product_share) + " of what it can do",
                        .why = "the device is sound and the job too small: it waits for launches",
                        .remedy = "a larger train.batch_size, or --set device=cpu where that is faster"});
  }
  return findings;
}

std::vector<Finding> judge_products(const DeviceMeasures& measures) {
  std::vector<Finding> findings;
  for (const ProductRate& rate : measures.products) {
    if (!rate.why_not.empty()) {
      findings.push_back({.severity = rate.type == "fp32" ? Severity::kBroken : Severity::kNote,
                          .id = "no-products",
                          .seen = measures.device + " cannot multiply in " + rate.type + ": " + rate.why_not,
                          .why = "train.precision=" + rate.type + " cannot be used there",
                          .remedy = rate.type == "fp32" ? "--set device=cpu" : ""});
    } else if (rate.utilization && *rate.utilization < kSoundUtilization) {
      findings.push_back(
          {.severity = Severity::kSlow,
           .id = "gpu-not-busy",
           .seen = measures.device + " is " + percent_text(*rate.utilization) + " busy while it does " +
                   "nothing but " + rate.type + " products (at least " + percent_text(kSoundUtilization) +
                   " expected)",
           .why = "the device itself is throttled, shared or broken: no setting of training mends that",
           .remedy = "nvidia-smi -q -d PERFORMANCE,CLOCK,POWER"});
    }
  }
  const double fp32 = measures.tflops("fp32"), bf16 = measures.tflops("bf16");
  if (is_host(measures.device) && fp32 > 0 && bf16 > 0 && bf16 < fp32) {
    findings.push_back(
        {.severity = Severity::kNote,
         .id = "bf16-slow",
         .seen = "bf16 products run at " + percent_text(bf16 / fp32) + " of fp32's rate on this CPU",
         .why = "it has no instructions for bf16 (avx512_bf16, amx_bf16)",
         .remedy = "keep train.precision at fp32 or auto"});
  }
  return findings;
}

}  // namespace finetune::doctor
