#include "finetune/checkpoint/pretrained.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "finetune/checkpoint/safetensors.h"
#include "finetune/core/error.h"
#include "finetune/core/file.h"
#include "finetune/core/text.h"
#include "manifest.h"
#include "tensor_bytes.h"

namespace finetune {
namespace {

namespace fs = std::filesystem;

constexpr char kIndexFile[] = "model.safetensors.index.json";

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

void require_folder(const fs::path& directory) {
  if (fs::is_directory(directory)) return;
  throw CheckpointError(
      directory.string() + (fs::exists(directory) ? " is a file" : " does not exist") +
      ", expected a Hugging Face model directory (config.json, model.safetensors, tokenizer files)");
}

/// A name as today's models have it: without what DataParallel and torch.compile put before it, LayerNorm's
/// old names replaced.
std::string modern_name(std::string_view name) {
  std::string modern(name);
  while (true) {
    if (modern.starts_with("module.")) {
      modern.erase(0, 7);
    } else if (const size_t compiled = modern.find("_orig_mod."); compiled != std::string::npos) {
      modern.erase(compiled, 10);
    } else {
      break;
    }
  }
  if (modern.ends_with(".gamma")) return modern.replace(modern.size() - 6, 6, ".weight");
  if (modern.ends_with(".beta")) return modern.replace(modern.size() - 5, 5, ".bias");
  return modern;
}

/// The weights of a directory, from one file or several.
class PretrainedWeights {
 public:
  struct Match {
    const SafetensorsFile* file = nullptr;
    const SafetensorsFile::Entry* entry = nullptr;
  };

  explicit PretrainedWeights(const fs::path& directory) {
    for (const auto& path : weight_files(directory)) add(files_.emplace_back(path));
  }

  /// Looks for the name as it is written, then for one that means the same.
  const Match* find(const std::string& name) const {
    if (const auto found = written_.find(name); found != written_.end()) return &found->second;
    const auto found = modern_.find(name);
    return found != modern_.end() ? &found->second : nullptr;
  }

  const std::map<std::string, Match>& entries() const { return written_; }

 private:
  static std::set<fs::path> weight_files(const fs::path& directory);

  void add(const SafetensorsFile& file) {
    for (const auto& entry : file.entries()) {
      const auto [first, is_new] = written_.try_emplace(entry.name, Match{&file, &entry});
      if (!is_new) {
        throw CheckpointError("the tensor '" + entry.name + "' is in both " +
                              first->second.file->path().string() + " and " + file.path().string() +
                              ", expected in one of them");
      }
      std::string modern = modern_name(entry.name);
      if (modern == entry.name) continue;
      const auto [same, unique] = modern_.try_emplace(std::move(modern), Match{&file, &entry});
      if (!unique) {
        throw CheckpointError(file.path().string() + ": both '" + same->second.entry->name + "' and '" +
                              entry.name + "' mean '" + same->first + "', expected one of them");
      }
    }
  }

  std::deque<SafetensorsFile> files_;
  std::map<std::string, Match> written_;
  std::map<std::string, Match> modern_;  ///< names that are not written as today's models have them
};

std::set<fs::path> PretrainedWeights::weight_files(const fs::path& directory) {
  if (fs::exists(directory / kModelFile)) return {directory / kModelFile};
  const fs::path index = directory / kIndexFile;
  if (fs::exists(index)) {
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
      files.insert(directory / part);
    }
    return files;
  }
  if (fs::exists(directory / "pytorch_model.bin") || fs::exists(directory / "pytorch_model.bin.index.json")) {
    throw CheckpointError(
        directory.string() +
        " holds its weights as pytorch_model.bin only, expected model.safetensors; convert it once: " +
        "python -c \"from transformers import AutoModel as M; M.from_pretrained('" + directory.string() +
        "').save_pretrained('" + directory.string() + "', safe_serialization=True)\"");
  }
  throw CheckpointError(directory.string() + " holds neither model.safetensors nor " + kIndexFile +
                        "; give the path of a Hugging Face model directory with its weights");
}

/// The entry for a parameter, under its own name or with the base prefix taken off or put on.
const PretrainedWeights::Match* match(const PretrainedWeights& weights, const std::string& name,
                                      const std::string& base_prefix) {
  if (const auto* found = weights.find(name)) return found;
  if (base_prefix.empty()) return nullptr;
  return weights.find(name.starts_with(base_prefix) ? name.substr(base_prefix.size()) : base_prefix + name);
}

/// What keeps an entry from filling a parameter, or nothing.
std::optional<std::string> mismatch(const NamedTensor& parameter, const SafetensorsFile::Entry& entry) {
  const std::string written = entry.name == parameter.name ? "" : " ('" + entry.name + "' in the file)";
  if (parameter.tensor.sizes() != at::IntArrayRef(entry.sizes)) {
    return parameter.name + written + ": the file has shape " + shape_text(entry.sizes) +
           ", the model expects " + shape_text(parameter.tensor.sizes());
  }
  const bool floating =
      c10::isFloatingType(entry.dtype) && c10::isFloatingType(parameter.tensor.scalar_type());
  if (entry.dtype != parameter.tensor.scalar_type() && !floating) {
    return parameter.name + written + ": the file has dtype " +
           std::string(safetensors_dtype_name(entry.dtype)) + ", the model expects " +
           c10::toString(parameter.tensor.scalar_type());
  }
  return std::nullopt;
}

[[noreturn]] void throw_nothing_matched(const fs::path& directory, const PretrainedWeights& weights,
                                        const NamedTensors& parameters, const std::string& base_prefix) {
  std::vector<std::string> in_file, in_model;
  for (const auto& [name, entry] : weights.entries()) in_file.push_back(name);
  for (const auto& parameter : parameters) {
    if (parameter.name.starts_with(base_prefix)) in_model.push_back(parameter.name);
  }
  throw CheckpointError("no tensor in " + directory.string() +
                        " has the name of an encoder parameter, so the encoder would " +
                        "be trained from random weights. The file has: " + join_some(in_file, 5) +
                        "; the model expects: " + join_some(in_model, 5) +
                        ". Give the weights of the same model family as config.json says");
}

[[noreturn]] void throw_mismatches(const fs::path& directory, const std::vector<std::string>& problems,
                                   bool in_encoder) {
  std::string message = "the weights in " + directory.string() + " do not fit the model:";
  for (const auto& problem : problems) message += "\n  " + problem;
  message +=
      in_encoder
          ? "\nconfig.json and the weights do not belong together: take both from the same model"
          : "\nThe encoder fits; the head was trained for another number of labels. Give task.labels the "
            "labels of "
            "id2label in its config.json, or set model.path to the encoder that it was fine-tuned from";
  throw CheckpointError(message);
}

}  // namespace

Json read_model_config(const fs::path& directory) {
  require_folder(directory);
  const fs::path path = directory / "config.json";
  if (!fs::exists(path)) {
    throw CheckpointError(directory.string() +
                          " has no config.json; give the path of a Hugging Face model directory");
  }
  return read_json_object(path);
}

LoadReport load_pretrained(const fs::path& directory, const NamedTensors& parameters,
                           const std::string& base_prefix) {
  require_folder(directory);
  const PretrainedWeights weights(directory);
  LoadReport report;
  std::vector<std::pair<PretrainedWeights::Match, const NamedTensor*>> matches;
  std::vector<std::string> problems;
  std::set<const SafetensorsFile::Entry*> used;
  bool encoder_found = false, encoder_mismatch = false;
  for (const auto& parameter : parameters) {
    const auto* found = match(weights, parameter.name, base_prefix);
    if (found == nullptr) {
      report.missing.push_back(parameter.name);
      continue;
    }
    const bool in_encoder = parameter.name.starts_with(base_prefix);
    encoder_found |= in_encoder;
    used.insert(found->entry);
    if (auto problem = mismatch(parameter, *found->entry)) {
      problems.push_back(std::move(*problem));
      encoder_mismatch |= in_encoder;
    }
    matches.emplace_back(*found, &parameter);
    report.loaded.push_back(parameter.name);
  }
  if (!encoder_found) throw_nothing_matched(directory, weights, parameters, base_prefix);
  if (!problems.empty()) throw_mismatches(directory, problems, encoder_mismatch);
  for (const auto& [name, found] : weights.entries()) {
    // Older versions of transformers stored this buffer, a plain count, with the weights.
    const bool buffer = name.ends_with("embeddings.position_ids");
    if (!used.contains(found.entry) && !buffer) report.unexpected.push_back(name);
  }
  for (const auto& [found, parameter] : matches) found.file->read_into(*found.entry, parameter->tensor);
  return report;
}

}  // namespace finetune
