#include <ATen/ops/empty.h>

#include <algorithm>

#include "finetune/checkpoint/python_checkpoint.h"
#include "finetune/checkpoint/safetensors.h"
#include "finetune/core/error.h"
#include "manifest.h"
#include "pretrained_weights.h"

namespace finetune {
namespace {

at::Tensor host_copy(const SafetensorsFile& file, const SafetensorsFile::Entry& entry) {
  const at::Tensor tensor = at::empty(entry.sizes, at::TensorOptions(entry.dtype));
  file.read_into(entry, tensor);
  return tensor;
}

at::Tensor required(const SafetensorsFile& file, const std::string& name) {
  const auto* entry = file.find(name);
  if (entry == nullptr) throw CheckpointError(file.path().string() + " has no tensor " + name);
  return host_copy(file, *entry);
}

/// Nothing for a parameter that is frozen or was never updated: torch keeps no state for it either.
std::optional<AdamMoments> moments_of(const SafetensorsFile& file, const std::string& name) {
  if (file.find("step/" + name) == nullptr) return std::nullopt;
  AdamMoments moments;
  moments.step = required(file, "step/" + name).item<double>();
  if (moments.step == 0) return std::nullopt;
  moments.exp_avg = required(file, "exp_avg/" + name);
  moments.exp_avg_sq = required(file, "exp_avg_sq/" + name);
  if (const auto* largest = file.find("max_exp_avg_sq/" + name))
    moments.max_exp_avg_sq = host_copy(file, *largest);
  return moments;
}

}  // namespace

PythonCheckpoint to_python(const VerifiedCheckpoint& checkpoint, const PythonLayout& layout) {
  PythonCheckpoint result;
  result.weights_key = layout.weights_key;
  result.epoch = layout.epoch;
  const SafetensorsFile weights(checkpoint.directory / kModelFile);
  const SafetensorsFile optimizer(checkpoint.directory / kOptimizerFile);
  const bool is_adam =
      std::any_of(layout.parameters.begin(), layout.parameters.end(),
                  [&](const std::string& name) { return optimizer.find("exp_avg/" + name) != nullptr; });
  if (is_adam) result.optimizer = AdamState{layout.groups, {}};
  for (const std::string& name : layout.parameters) {
    const auto renamed = layout.names.find(name);
    const std::string& written = renamed == layout.names.end() ? name : renamed->second;
    result.weights.push_back({written, required(weights, name)});
    if (!is_adam) continue;
    if (auto moments = moments_of(optimizer, name))
      result.optimizer->moments.emplace(written, std::move(*moments));
  }
  return result;
}

NamedTensors read_weights(const std::filesystem::path& path) {
  NamedTensors tensors;
  if (path.extension() == ".safetensors") {
    const SafetensorsFile file(path);
    for (const auto& entry : file.entries()) tensors.push_back({entry.name, host_copy(file, entry)});
  } else if (std::filesystem::is_directory(path)) {
    const PretrainedWeights weights(path);
    for (const auto& [name, entry] : weights.entries()) {
      tensors.push_back({name, at::empty(entry.sizes, at::TensorOptions(entry.dtype))});
      entry.fill(tensors.back().tensor);
    }
  } else {
    const PthFile file(path);
    for (const auto& [name, tensor] : file.tensors(file.state_dict())) {
      tensors.push_back({name, at::empty(tensor.sizes(), tensor.options())});
      copy_tensor(tensor, tensors.back().tensor);
    }
  }
  return tensors;
}

}  // namespace finetune
