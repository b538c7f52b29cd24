#pragma once

#include "finetune/doctor/facts.h"
#include "finetune/doctor/finding.h"

namespace finetune::doctor {

/// A machine on which everything is as it should be, with one GPU.
inline MachineFacts sound_machine() {
  MachineFacts facts;
  facts.cpu.name = "A CPU";
  facts.cpu.features = {"avx2", "fma"};
  facts.cpu.cores = facts.cpu.usable = 8;
  facts.cpu.memory_total = int64_t{64} << 30;
  facts.cpu.memory_available = int64_t{60} << 30;
  facts.libtorch.version = "2.11.0";
  facts.libtorch.folder = "/opt/torch";
  facts.libtorch.cuda = "13.0";
  facts.libtorch.cuda_library = true;
  facts.libtorch.architectures = {"sm_80", "sm_86", "sm_90", "sm_120", "compute_120"};
  facts.driver.found = true;
  facts.driver.path = "/usr/lib/libcuda.so.1";
  facts.driver.version = "580.65.06";
  facts.driver.cuda_version = 13000;
  facts.driver.num_devices = 1;
  facts.plugin.path = "/opt/finetune/lib/libfinetune_cuda.so";
  facts.plugin.usable = true;
  facts.gpus.emplace_back();
  facts.gpus.back().name = "A GPU";
  facts.gpus.back().major = 9;
  facts.gpus.back().memory_total = int64_t{80} << 30;
  facts.pci_gpus = 1;
  return facts;
}

/// The same without any GPU.
inline MachineFacts machine_without_gpu() {
  MachineFacts facts = sound_machine();
  facts.driver = {};
  facts.driver.problem = "libcuda.so.1: cannot open shared object file";
  facts.plugin.usable = false;
  facts.gpus.clear();
  facts.pci_gpus = 0;
  facts.libtorch.architectures.clear();
  return facts;
}

}  // namespace finetune::doctor
