#include <algorithm>

#include "finetune/core/version.h"
#include "finetune/doctor/report.h"

namespace finetune::doctor {
namespace {

template <typename T>
Json optional_value(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

template <typename T, typename Convert>
Json array_of(const std::vector<T>& items, const Convert& convert) {
  Json array = Json::array();
  for (const T& item : items) array.push_back(convert(item));
  return array;
}

Json json_of(const CpuFacts& cpu) {
  return Json{
      {"name", cpu.name},   {"features", cpu.features},         {"isa", cpu.isa},
      {"cores", cpu.cores}, {"usable_cores", cpu.usable},       {"quota", cpu.quota},
      {"load", cpu.load},   {"memory_total", cpu.memory_total}, {"memory_available", cpu.memory_available}};
}

Json json_of(const GpuFacts& gpu) {
  return Json{{"name", gpu.name},
              {"compute_capability", std::to_string(gpu.major) + "." + std::to_string(gpu.minor)},
              {"memory_total", gpu.memory_total},
              {"memory_free", optional_value(gpu.memory_free)},
              {"utilization", optional_value(gpu.utilization)},
              {"power_w", optional_value(gpu.power_w)},
              {"other_processes", gpu.other_processes},
              {"other_bytes", gpu.other_bytes}};
}

Json json_of(const MachineFacts& facts) {
  const LibTorchFacts& libtorch = facts.libtorch;
  const DriverFacts& driver = facts.driver;
  return Json{
      {"cpu", json_of(facts.cpu)},
      {"libtorch",
       {{"version", libtorch.version},
        {"folder", libtorch.folder},
        {"cuda", libtorch.cuda},
        {"cudart", libtorch.cudart},
        {"cudnn", libtorch.cudnn},
        {"nccl", libtorch.nccl},
        {"architectures", libtorch.architectures}}},
      {"driver",
       {{"found", driver.found},
        {"path", driver.path},
        {"version", driver.version},
        {"cuda_version", driver.cuda_version},
        {"init_code", driver.init_code},
        {"devices", driver.num_devices}}},
      {"plugin",
       {{"path", facts.plugin.path}, {"usable", facts.plugin.usable}, {"why_not", facts.plugin.why_not}}},
      {"gpus", array_of(facts.gpus, [](const GpuFacts& gpu) { return json_of(gpu); })},
      {"pci_gpus", facts.pci_gpus},
      {"toolkit", facts.toolkit},
      {"environment", facts.environment}};
}

Json json_of(const ProductRate& rate) {
  if (!rate.why_not.empty()) return Json{{"type", rate.type}, {"why_not", rate.why_not}};
  return Json{{"type", rate.type},       {"size", rate.size},
              {"count", rate.count},     {"seconds", rate.seconds},
              {"tflops", rate.tflops()}, {"utilization", optional_value(rate.utilization)}};
}

Json json_of(const DeviceMeasures& measures) {
  Json copies = Json::object();
  for (const CopyRate& rate : measures.copies) copies[rate.kind] = rate.bytes_per_second;
  return Json{
      {"device", measures.device},
      {"description", measures.description},
      {"asynchronous", measures.asynchronous},
      {"launch_seconds", measures.launch_seconds},
      {"round_trip_seconds", measures.round_trip_seconds},
      {"products", array_of(measures.products, [](const ProductRate& rate) { return json_of(rate); })},
      {"copy_bytes_per_second", copies}};
}

Json json_of(const Rehearsal& rehearsal) {
  const StepTimes& times = rehearsal.times;
  const auto placement = [](const PlacementRow& row) {
    return Json{{"what", row.what},
                {"tensors", row.num_tensors},
                {"bytes", row.bytes},
                {"devices", row.devices},
                {"ok", row.ok}};
  };
  const auto slow_way = [](const SlowWay& way) {
    return Json{{"name", way.name},
                {"how", way.how},
                {"ratio", optional_value(way.ratio)},
                {"of", way.of},
                {"note", way.note}};
  };
  return Json{{"device", rehearsal.device},
              {"precision", rehearsal.precision},
              {"steps", rehearsal.steps},
              {"tokens_a_step", rehearsal.tokens},
              {"seconds",
               {{"total", times.total},
                {"data", times.data},
                {"forward", times.forward},
                {"backward", times.backward},
                {"update", times.update},
                {"wait", times.wait}}},
              {"fixed_seconds", rehearsal.model.fixed},
              {"seconds_a_token", rehearsal.model.a_token},
              {"operations", rehearsal.launches},
              {"host_reads", rehearsal.host_reads},
              {"flops", rehearsal.flops},
              {"product_share", rehearsal.product_share},
              {"memory_plan", finetune::to_json(rehearsal.plan)},
              {"memory_available", optional_value(rehearsal.available)},
              {"measured_activations", optional_value(rehearsal.activations)},
              {"placement", array_of(rehearsal.placement, placement)},
              {"slow_ways", array_of(rehearsal.slow_ways, slow_way)}};
}

Json json_of(const JobReport& job) {
  return Json{
      {"parameters", job.parameters},
      {"rows", job.rows},
      {"rows_were_cut", job.rows_were_cut},
      {"tokens_a_row", job.tokens_a_row},
      {"max_length", job.max_length},
      {"batch_size", job.batch_size},
      {"steps", job.steps},
      {"devices", array_of(job.rehearsals, [](const Rehearsal& rehearsal) { return json_of(rehearsal); })}};
}

}  // namespace

Json to_json(const Report& report) {
  const auto finding = [](const Finding& found) {
    return Json{{"severity", name_of(found.severity)},
                {"id", found.id},
                {"seen", found.seen},
                {"why", found.why},
                {"do", found.remedy}};
  };
  return Json{
      {"finetune", FINETUNE_VERSION},
      {"requested_device", report.requested},
      {"usable", report.usable},
      {"healthy", report.healthy()},
      {"threads", report.threads},
      {"seconds", report.seconds},
      {"machine", json_of(report.facts)},
      {"devices", array_of(report.devices, [](const DeviceMeasures& device) { return json_of(device); })},
      {"job", report.job ? json_of(*report.job) : Json(nullptr)},
      {"findings", array_of(report.findings, finding)}};
}

}  // namespace finetune::doctor
