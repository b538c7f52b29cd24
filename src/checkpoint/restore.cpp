#include <ATen/core/Tensor.h>

#include <set>
#include <string>
#include <vector>

#include "finetune/checkpoint/safetensors.h"
#include "finetune/checkpoint/store.h"
#include "finetune/core/error.h"
#include "finetune/core/file.h"
#include "manifest.h"
#include "tensor_bytes.h"

namespace finetune {
namespace {

/// What keeps `file` from filling `tensors`, one line each.
void compare(const SafetensorsFile& file, const NamedTensors& tensors, std::vector<std::string>& problems) {
  const std::string place = file.path().filename().string() + ": ";
  std::set<std::string_view> wanted;
  for (const auto& [name, tensor] : tensors) {
    if (!wanted.insert(name).second) problems.push_back(place + "'" + name + "' is asked for twice");
    const auto* entry = file.find(name);
    if (entry == nullptr) {
      problems.push_back(place + "'" + name + "' is missing");
      continue;
    }
    if (tensor.sizes() != at::IntArrayRef(entry->sizes)) {
      problems.push_back(place + "'" + name + "' has shape " + shape_text(entry->sizes) + ", expected " +
                         shape_text(tensor.sizes()));
    }
    if (tensor.scalar_type() != entry->dtype) {
      const auto expected = safetensors_dtype_name(tensor.scalar_type());
      problems.push_back(place + "'" + name + "' has dtype " +
                         std::string(safetensors_dtype_name(entry->dtype)) + ", expected " +
                         (expected.empty() ? c10::toString(tensor.scalar_type()) : std::string(expected)));
    }
  }
  for (const auto& entry : file.entries()) {
    if (!wanted.contains(entry.name)) problems.push_back(place + "'" + entry.name + "' is unexpected");
  }
}

void fill(const SafetensorsFile& file, const NamedTensors& tensors) {
  for (const auto& [name, tensor] : tensors) file.read_into(*file.find(name), tensor);
}

Json read_state(const std::filesystem::path& path) {
  try {
    return Json::parse(read_file(path));
  } catch (const std::system_error& error) {
    throw CheckpointError(error.what());
  } catch (const Json::exception& error) {
    throw CheckpointError(path.string() + " is not JSON: " + error.what());
  }
}

}  // namespace

VerifiedCheckpoint verify_checkpoint(const std::filesystem::path& directory) {
  if (!std::filesystem::is_directory(directory)) {
    throw CheckpointError(
        directory.string() +
        " is no folder and no file, expected a checkpoint (RUN/checkpoints/step-*, or a .pth)");
  }
  const Manifest manifest = read_manifest(directory);
  for (const char* name : {kModelFile, kOptimizerFile, kStateFile}) {
    const auto digest = manifest.files.find(name);
    if (digest == manifest.files.end()) {
      throw CheckpointError((directory / kManifestFile).string() + " does not list " + name);
    }
    verify_file(directory / name, digest->second);
  }
  return {manifest.step, directory, read_state(directory / kStateFile)};
}

void restore_tensors(const VerifiedCheckpoint& checkpoint, const NamedTensors& model,
                     const NamedTensors& optimizer) {
  const SafetensorsFile model_file(checkpoint.directory / kModelFile);
  const SafetensorsFile optimizer_file(checkpoint.directory / kOptimizerFile);
  std::vector<std::string> problems;
  compare(model_file, model, problems);
  compare(optimizer_file, optimizer, problems);
  if (!problems.empty()) {
    std::string message = "checkpoint " + checkpoint.directory.string() +
                          " does not fit this run's model and optimizer (" + std::to_string(problems.size()) +
                          (problems.size() == 1 ? " problem" : " problems") +
                          "); resume with the model and optimizer it was saved with:";
    for (const auto& problem : problems) message += "\n  " + problem;
    throw CheckpointError(message);
  }
  fill(model_file, model);
  fill(optimizer_file, optimizer);
}

}  // namespace finetune
