#pragma once

#include <string>
#include <vector>

#include "finetune/doctor/facts.h"

namespace finetune::doctor {

enum class Severity {
  kGood,   ///< as it should be
  kNote,   ///< worth knowing
  kSlow,   ///< costs speed or memory
  kBroken  ///< what was asked for cannot work
};

/// "good", "note", "slow", "broken".
const char* name_of(Severity severity);

/// One thing the doctor found.
struct Finding {
  Severity severity = Severity::kNote;
  std::string id{};      ///< stable, for scripts: "no-driver"
  std::string seen{};    ///< what was seen
  std::string why{};     ///< why it matters
  std::string remedy{};  ///< what to type or do; empty where there is nothing to do
};

/// Why CUDA can or cannot be used, the first cause first. `cuda_requested`: the user insists on it, so that a
/// cause is `kBroken`; otherwise it is a note, or `kSlow` where a GPU lies idle.
std::vector<Finding> judge_cuda(const MachineFacts& facts, bool cuda_requested);

/// Environment variables, thread counts and libraries that slow things down, of the CPU and the GPU.
/// threads: what the run uses.
std::vector<Finding> judge_settings(const MachineFacts& facts, int64_t threads);

/// Whether code compiled for `architectures` ("sm_86", "compute_90") runs on compute capability
/// `major.minor`: binaries run on the same major and a minor at least theirs, `compute_` code on all later
/// ones.
bool architecture_fits(const std::vector<std::string>& architectures, int major, int minor);

}  // namespace finetune::doctor
