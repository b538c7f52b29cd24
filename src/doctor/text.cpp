#include "finetune/core/text.h"

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "finetune/core/version.h"
#include "finetune/doctor/report.h"
#include "numbers.h"

namespace finetune::doctor {
namespace {

constexpr const char* kTick = "\u2713";
constexpr const char* kCross = "\u2717";

/// Lines of a name and what there is to say of it, in two columns.
class Section {
 public:
  Section(std::ostringstream& out, const std::string& title, size_t width = 12) : out_(out), width_(width) {
    out_ << "\n" << title << "\n";
  }
  void line(const std::string& name, const std::string& value) {
    if (value.empty()) return;
    // A byte of the form 10xxxxxx continues a character.
    const auto width = static_cast<size_t>(std::count_if(
        name.begin(), name.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
    out_ << "  " << name << std::string(width < width_ ? width_ - width : 1, ' ') << value << "\n";
  }

 private:
  std::ostringstream& out_;
  size_t width_;
};

std::string joined(const std::vector<std::string>& words) { return join_some(words, words.size()); }

std::string if_any(const std::string& before, const std::string& text) {
  return text.empty() ? "" : before + text;
}

std::string cuda_version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string driver_line(const MachineFacts& facts) {
  if (!facts.driver.found) return "none";
  return facts.driver.version + ", CUDA up to " + cuda_version_text(facts.driver.cuda_version) + " (" +
         facts.driver.path + ")";
}

std::string libtorch_line(const LibTorchFacts& libtorch) {
  std::string line = libtorch.version;
  line += libtorch.cuda.empty() ? ", a build for the CPU" : ", built with CUDA " + libtorch.cuda;
  line += if_any(", CUDA runtime ", libtorch.cudart) + if_any(", cuDNN ", libtorch.cudnn) +
          if_any(", NCCL ", libtorch.nccl);
  return line;
}

void write_machine(std::ostringstream& out, const Report& report) {
  const MachineFacts& facts = report.facts;
  const CpuFacts& cpu = facts.cpu;
  Section section(out, "Machine");
  section.line("CPU", cpu.name + ", " + std::to_string(cpu.usable) + " of " + std::to_string(cpu.cores) +
                          " cores usable, " + std::to_string(report.threads) + " threads, kernels for " +
                          cpu.isa);
  section.line("", joined(cpu.features));
  section.line("memory", bytes_text(cpu.memory_available) + " available of " + bytes_text(cpu.memory_total));
  section.line("LibTorch", libtorch_line(facts.libtorch));
  section.line("GPU plugin", facts.plugin.path.empty() ? "not found"
                             : facts.plugin.usable
                                 ? facts.plugin.path
                                 : facts.plugin.path + ", not loaded: " + facts.plugin.why_not);
  section.line("GPU driver", driver_line(facts));
  section.line("toolkit", facts.toolkit.empty() ? "" : "CUDA " + facts.toolkit);
  for (size_t i = 0; i < facts.gpus.size(); ++i) {
    const GpuFacts& gpu = facts.gpus[i];
    section.line(
        "cuda:" + std::to_string(i),
        gpu.name + ", compute capability " + std::to_string(gpu.major) + "." + std::to_string(gpu.minor) +
            ", " + (gpu.memory_free ? bytes_text(*gpu.memory_free) + " free of " : "") +
            bytes_text(gpu.memory_total) + ", " + std::to_string(gpu.other_processes) + " other processes");
  }
  for (const auto& [name, value] : facts.environment) section.line("set", name + "=" + value);
}

void write_measures(std::ostringstream& out, const DeviceMeasures& measures) {
  Section section(out, "Measured on " + measures.device + ": " + measures.description);
  for (const ProductRate& rate : measures.products) {
    if (!rate.why_not.empty()) {
      section.line(rate.type, "not possible: " + rate.why_not);
      continue;
    }
    section.line(rate.type,
                 rate_text(rate.tflops()) + " (" + std::to_string(rate.count) + " products of " +
                     std::to_string(rate.size) + " x " + std::to_string(rate.size) + " in " +
                     seconds_text(rate.seconds) +
                     (rate.utilization ? ", device " + percent_text(*rate.utilization) + " busy" : "") + ")");
  }
  for (const CopyRate& rate : measures.copies) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.1f GB/s ", rate.bytes_per_second / 1e9);
    section.line("copy", text + rate.kind);
  }
  section.line("launch", seconds_text(measures.launch_seconds) + " an operation, " +
                             seconds_text(measures.round_trip_seconds) + " until the host has its result");
}

void write_placement(std::ostringstream& out, const Rehearsal& rehearsal) {
  Section section(out, "Placement on " + rehearsal.device, 34);
  for (const PlacementRow& row : rehearsal.placement) {
    const std::string where = row.num_tensors == 0
                                  ? "none"
                                  : std::to_string(row.num_tensors) +
                                        (row.num_tensors == 1 ? " tensor" : " tensors") + ", " +
                                        bytes_text(row.bytes) + " on " + joined(row.devices);
    section.line(std::string(row.ok ? kTick : kCross) + " " + row.what, where);
  }
}

std::string step_parts(const StepTimes& times, bool asynchronous) {
  std::string text = "data " + seconds_text(times.data) + ", forward " + seconds_text(times.forward) +
                     ", backward " + seconds_text(times.backward) + ", update " + seconds_text(times.update);
  return asynchronous ? "queueing: " + text + "; then waiting for the device: " + seconds_text(times.wait)
                      : text;
}

void write_rehearsal(std::ostringstream& out, const Rehearsal& rehearsal, const JobReport& job,
                     bool asynchronous) {
  Section section(out, "A step on " + rehearsal.device + ", " + rehearsal.precision);
  const double rows = static_cast<double>(job.batch_size);
  section.line("time", seconds_text(rehearsal.times.total) + ", " + ratio_text(rows / rehearsal.times.total) +
                           " rows/s, " +
                           with_thousands(static_cast<int64_t>(rehearsal.tokens / rehearsal.times.total)) +
                           " tokens/s (mean of " + std::to_string(rehearsal.steps) + " steps)");
  section.line("parts", step_parts(rehearsal.times, asynchronous));
  section.line("fixed", seconds_text(rehearsal.model.fixed) + " whatever the batch, then " +
                            seconds_text(rehearsal.model.a_token * job.tokens_a_row) + " a row");
  if (rehearsal.product_share > 0) {
    section.line("products",
                 percent_text(rehearsal.product_share) + " of the rate that products alone reach");
  }
  section.line("operations", std::to_string(rehearsal.launches) +
                                 " a step; host reads: " + std::to_string(rehearsal.host_reads));
  section.line("whole run", std::to_string(job.steps) + " steps, about " +
                                seconds_text(static_cast<double>(job.steps) * rehearsal.times.total) +
                                " without evaluation and saving");
  section.line("memory", to_text(rehearsal.plan, rehearsal.available));
  if (rehearsal.activations) {
    section.line("", "activations and temporaries measured in a step: " + bytes_text(*rehearsal.activations));
  }
  write_placement(out, rehearsal);
  Section ways(out, "Slow ways on " + rehearsal.device + ", each against this program's step (1.00: no cost)",
               46);
  for (const SlowWay& way : rehearsal.slow_ways) {
    const std::string ratio = way.ratio ? ratio_text(*way.ratio) + " x " + way.of : "-";
    ways.line(way.name, ratio + std::string(ratio.size() < 16 ? 16 - ratio.size() : 1, ' ') +
                            (way.ratio ? way.how + (way.note.empty() ? "" : "; " + way.note) : way.note));
  }
}

void write_findings(std::ostringstream& out, const std::vector<Finding>& findings) {
  out << "\nFindings\n";
  if (findings.empty()) out << "  none\n";
  for (const Finding& finding : findings) {
    out << "  " << name_of(finding.severity)
        << std::string(8 - std::string(name_of(finding.severity)).size(), ' ') << finding.seen << "\n";
    if (!finding.why.empty()) out << "          why: " << finding.why << "\n";
    if (!finding.remedy.empty()) out << "          do:  " << finding.remedy << "\n";
  }
}

}  // namespace

std::string to_text(const Report& report) {
  std::ostringstream out;
  out << "finetune " << FINETUNE_VERSION << " doctor, device " << report.requested << "\n";
  write_machine(out, report);
  for (const DeviceMeasures& measures : report.devices) write_measures(out, measures);
  if (report.job) {
    const JobReport& job = *report.job;
    Section section(out, "Job");
    section.line("model", with_thousands(job.parameters) + " parameters");
    section.line("data", with_thousands(job.rows) + " rows" +
                             (job.rows_were_cut ? " (the first of more)" : "") + ", " +
                             ratio_text(job.tokens_a_row) + " tokens a row, at most " +
                             std::to_string(job.max_length));
    section.line("batch", std::to_string(job.batch_size) + " rows");
    for (size_t i = 0; i < job.rehearsals.size(); ++i) {
      write_rehearsal(out, job.rehearsals[i], job, report.devices[i].asynchronous);
    }
  }
  write_findings(out, report.findings);
  out << "\n"
      << (report.healthy() ? "healthy" : "not healthy") << ": " << report.requested << " "
      << (report.usable ? "can" : "cannot") << " be used (" << seconds_text(report.seconds) << ")\n";
  return out.str();
}

}  // namespace finetune::doctor
