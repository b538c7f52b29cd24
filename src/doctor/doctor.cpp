#include "finetune/doctor/doctor.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <numeric>

#include "finetune/core/clock.h"
#include "finetune/core/error.h"
#include "finetune/core/log.h"
#include "finetune/device/available_memory.h"
#include "rehearse.h"

namespace finetune::doctor {
namespace {

/// With a job there is less time for the machine.
constexpr double kProductSeconds = 2.0;
constexpr double kProductSecondsWithJob = 1.2;
/// Of a larger training set the first rows stand for it: reading all of it would take longer than the rest.
constexpr uintmax_t kLargeDataBytes = uintmax_t{32} << 20;
constexpr int64_t kRowsOfLargeData = 4096;

bool is_cuda(const std::string& device) { return device.rfind("cuda", 0) == 0; }

/// The requested device, the CPU in its place where it cannot be used (`why_not` then says why), and the
/// others of this machine that the job could run on.
std::vector<OpenDevice> open_devices(const std::string& requested, int64_t threads, const MachineFacts& facts,
                                     std::string* why_not) {
  std::vector<OpenDevice> devices;
  try {
    devices.push_back(open_device(requested, threads));
  } catch (const DeviceError& error) {
    *why_not = error.what();
    devices.push_back(open_device("cpu", threads));
  }
  if (!devices.front().device.is_cpu()) {
    devices.push_back(open_device("cpu", threads));
  } else if (facts.plugin.usable && why_not->empty()) {
    devices.push_back(open_device("cuda", threads));
  }
  return devices;
}

uintmax_t size_of(const std::vector<std::filesystem::path>& files) {
  uintmax_t bytes = 0;
  for (const auto& file : files) {
    std::error_code error;
    const uintmax_t size = std::filesystem::file_size(file, error);
    if (!error) bytes += size;
  }
  return bytes;
}

/// The config with only the first rows of its training data.
RunConfig cut(RunConfig config) {
  const int64_t rows = std::max(kRowsOfLargeData, 8 * config.train.batch_size);
  config.data.max_rows = std::min(rows, config.data.max_rows.value_or(rows));
  config.data.validation.clear();
  config.data.test.clear();
  config.data.validation_fraction = 0.1;
  return config;
}

Inputs load_some_inputs(RunConfig config, c10::Device device, bool* rows_were_cut) {
  // So few rows always fit.
  if (config.data.residency == Residency::kAuto) config.data.residency = Residency::kDevice;
  if (size_of(config.data.train) > kLargeDataBytes) {
    try {
      *rows_were_cut = true;
      return load_inputs(cut(config), device);
    } catch (const DataError& error) {
      // The first rows alone may be of one class. The whole has the last word.
      spdlog::info("{}; reading all rows", error.what());
    }
  }
  *rows_were_cut = false;
  return load_inputs(config, device);
}

void describe_job(const Inputs& inputs, const Job& job, JobReport& report) {
  const auto& lengths = inputs.train.lengths;
  report.rows = inputs.train.num_rows();
  report.batch_size = job.batch_size();
  report.tokens_a_row =
      std::accumulate(lengths.begin(), lengths.end(), 0.0) / static_cast<double>(lengths.size());
  report.max_length = std::min(job.config().data.max_length, inputs.encoder.max_positions);
  report.steps = count_steps(job.config().train, job.steps_per_epoch());
  report.parameters = 0;
  for (const Parameter& parameter : job.model().parameters()) report.parameters += parameter.value.numel();
}

JobReport examine_job(const RunConfig& config, const std::vector<OpenDevice>& devices,
                      const std::vector<DeviceMeasures>& measures) {
  JobReport report;
  for (size_t i = 0; i < devices.size(); ++i) {
    spdlog::info("a few steps on {}", devices[i].device.str());
    const auto available = available_memory(devices[i].device);
    Inputs inputs = load_some_inputs(config, devices[i].device, &report.rows_were_cut);
    Job job(config, devices[i], inputs);
    describe_job(inputs, job, report);
    report.rehearsals.push_back(rehearse(job, measures[i], available));
  }
  return report;
}

void append(std::vector<Finding>& findings, std::vector<Finding> more) {
  findings.insert(findings.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

void judge_job(Report& report) {
  std::vector<StepModel> models;
  for (size_t i = 0; i < report.job->rehearsals.size(); ++i) {
    const Rehearsal& rehearsal = report.job->rehearsals[i];
    append(report.findings, judge_rehearsal(rehearsal, report.devices[i]));
    models.push_back(rehearsal.model);
  }
  append(report.findings, choose_device(models, report.job->tokens_a_row, report.job->batch_size));
  if (models.size() == 1)
    report.findings.push_back(
        judge_without_gpu(report.job->rehearsals.front(), report.job->steps, report.devices.front()));
}

}  // namespace

bool Report::healthy() const {
  return usable && std::none_of(findings.begin(), findings.end(),
                                [](const Finding& finding) { return finding.severity == Severity::kBroken; });
}

Report examine(const Options& options, const Probe& probe) {
  const double began = monotonic_seconds();
  Report report;
  report.requested = options.config ? options.config->device : options.device;
  report.facts = probe.look();
  std::string why_not;
  const auto devices = open_devices(
      report.requested, options.config ? options.config->threads : options.threads, report.facts, &why_not);
  report.usable = why_not.empty();
  report.threads = at::get_num_threads();
  append(report.findings, judge_cuda(report.facts, is_cuda(report.requested)));
  const bool cause_is_known = std::any_of(report.findings.begin(), report.findings.end(),
                                          [](const Finding& f) { return f.severity == Severity::kBroken; });
  if (!report.usable && !cause_is_known) {
    report.findings.push_back({.severity = Severity::kBroken,
                               .id = "device",
                               .seen = why_not,
                               .why = "training ends with exit code 5 before it begins",
                               .remedy = "--set device=auto"});
  }
  append(report.findings, judge_settings(report.facts, report.threads));

  for (const OpenDevice& device : devices) {
    spdlog::info("measuring {}", device.device.str());
    const int index = device.device.index();
    const Utilization utilization = device.device.is_cuda()
                                        ? Utilization([&probe, index] { return probe.utilization(index); })
                                        : Utilization();
    report.devices.push_back(
        measure_device(device, options.config ? kProductSecondsWithJob : kProductSeconds, utilization));
    append(report.findings, judge_products(report.devices.back()));
  }
  if (options.config) {
    report.job = examine_job(*options.config, devices, report.devices);
    judge_job(report);
  }
  report.seconds = monotonic_seconds() - began;
  return report;
}

}  // namespace finetune::doctor
