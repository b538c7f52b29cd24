#include "pretrained_weights.h"

#include <set>
#include <system_error>
#include <utility>

#include "finetune/core/error.h"
#include "finetune/core/file.h"
#include "manifest.h"
#include "weight_names.h"

namespace finetune {
namespace {

namespace fs = std::filesystem;

constexpr char kPickleFile[] = "pytorch_model.bin";

/// The parts that an index names.
std::set<fs::path> parts_of(const fs::path& index) {
  const Json content = read_json_object(index);
  const auto map = content.find("weight_map");
  if (map == content.end() || !map->is_object() || map->empty()) {
    throw CheckpointError(index.string() + " has no \"weight_map\" of names to files");
  }
  std::set<fs::path> files;
  for (const auto& [name, file] : map->items()) {
    const fs::path part = file.is_string() ? fs::path(file.get<std::string>()) : fs::path();
    if (part.empty() || part != part.filename() || part == "..") {
      throw CheckpointError(index.string() + ": the file of '" + name + "' is " + file.dump() +
                            ", expected the name of a file in the same folder");
    }
    files.insert(index.parent_path() / part);
  }
  return files;
}

std::set<fs::path> weight_files(const fs::path& directory) {
  for (const char* name : {kModelFile, kPickleFile}) {
    if (fs::exists(directory / name)) return {directory / name};
    const fs::path index = directory / (std::string(name) + ".index.json");
    if (fs::exists(index)) return parts_of(index);
  }
  throw CheckpointError(
      directory.string() + " holds neither " + kModelFile + " nor " + kPickleFile +
      ", whole or in parts; give the path of a Hugging Face model directory with its weights");
}

}  // namespace

Json read_json_object(const fs::path& path) {
  Json content;
  try {
    content = Json::parse(read_file(path));
  } catch (const std::system_error& error) {
    throw CheckpointError(error.what());
  } catch (const Json::exception& error) {
    throw CheckpointError(path.string() + " is not JSON: " + error.what());
  }
  if (!content.is_object())
    throw CheckpointError(path.string() + " holds " + content.type_name() + ", expected an object");
  return content;
}

PretrainedWeights::PretrainedWeights(const fs::path& directory, std::vector<Rename> rename)
    : rename_(std::move(rename)) {
  for (const auto& path : weight_files(directory)) open(path);
}

PretrainedWeights::PretrainedWeights(const fs::path& file, const NamedTensors& tensors,
                                     std::vector<Rename> rename)
    : rename_(std::move(rename)) {
  add(file, tensors);
}

void PretrainedWeights::open(const fs::path& path) {
  if (path.extension() == ".safetensors") {
    const SafetensorsFile& file = safetensors_.emplace_back(path);
    for (const auto& entry : file.entries()) {
      add({entry.name, path, entry.dtype, entry.sizes,
           [&file, &entry](const at::Tensor& destination) { file.read_into(entry, destination); }});
    }
    return;
  }
  const PthFile& file = pickles_.emplace_back(path);
  add(path, file.tensors(file.state_dict()));
}

void PretrainedWeights::add(const fs::path& file, const NamedTensors& tensors) {
  for (const auto& [name, tensor] : tensors) {
    add({name, file, tensor.scalar_type(), tensor.sizes().vec(),
         [tensor = tensor](const at::Tensor& destination) { copy_tensor(tensor, destination); }});
  }
}

void PretrainedWeights::add(WeightEntry entry) {
  const std::string name = entry.name;
  const fs::path file = entry.file;
  const auto [place, is_new] = written_.try_emplace(name, std::move(entry));
  if (!is_new) {
    throw CheckpointError("the tensor '" + name + "' is in both " + place->second.file.string() + " and " +
                          file.string() + ", expected in one of them");
  }
  std::string modern = modern_name(name, rename_);
  if (modern == name) return;
  const auto [same, unique] = modern_.try_emplace(std::move(modern), &place->second);
  if (!unique) {
    throw CheckpointError(file.string() + ": both '" + same->second->name + "' and '" + name + "' mean '" +
                          same->first + "', expected one of them");
  }
}

const WeightEntry* PretrainedWeights::find(const std::string& name) const {
  if (const auto found = written_.find(name); found != written_.end()) return &found->second;
  const auto found = modern_.find(name);
  return found != modern_.end() ? found->second : nullptr;
}

}  // namespace finetune
