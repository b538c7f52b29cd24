#include "inputs.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <set>

#include "finetune/checkpoint/pretrained.h"
#include "finetune/core/error.h"
#include "finetune/core/log.h"
#include "finetune/core/signals.h"
#include "finetune/core/text.h"
#include "finetune/data/encoded_dataset.h"
#include "finetune/train/model_directory.h"
#include "row_lengths.h"

namespace finetune {
namespace {

/// The model's own label order, where it was trained on exactly these labels; else nothing.
std::vector<std::string> labels_of_model(const Json& model_config) {
  std::vector<std::string> names;
  const auto id2label = model_config.find("id2label");
  if (id2label == model_config.end() || !id2label->is_object()) return names;
  for (size_t id = 0; id < id2label->size(); ++id) {
    const auto name = id2label->find(std::to_string(id));
    if (name == id2label->end() || !name->is_string()) return {};
    names.push_back(name->get<std::string>());
  }
  return names;
}

LabelMap choose_labels(const RunConfig& config, const TextDataset& train, const Json& model_config) {
  if (!config.task.labels.empty()) return LabelMap(config.task.labels);
  LabelMap learned = LabelMap::learn(train.labels);
  const auto of_model = labels_of_model(model_config);
  if (std::set<std::string>(of_model.begin(), of_model.end()) ==
          std::set<std::string>(learned.names().begin(), learned.names().end()) &&
      of_model.size() == learned.names().size()) {
    return LabelMap(of_model);
  }
  if (learned.size() < 2) {
    throw DataError(train.files.front().string() + ": column '" + config.data.label.name +
                    "' holds one class only ('" + learned.name(0) +
                    "'); a classifier needs at least two. Is it the right column?");
  }
  return learned;
}

class SplitLoader {
 public:
  SplitLoader(const EncodeOptions& options, c10::Device device, Inputs& inputs)
      : options_(options), device_(device), inputs_(inputs) {}

  DeviceDataset load(const std::string& name, const TextDataset& rows) {
    throw_if_stop_requested();
    const EncodedDataset encoded =
        encode_dataset(rows, *inputs_.tokenizer, options_, inputs_.task->labels(), at::get_num_threads());
    refuse_long_rows(rows, encoded, inputs_.encoder.max_positions);
    if (encoded.num_truncated > 0) {
      spdlog::warn("{}: {} of {} rows are longer than {} tokens and were truncated (data.max_length)", name,
                   with_thousands(encoded.num_truncated), with_thousands(encoded.num_rows()),
                   options_.max_length);
    }
    if (rows.num_replaced > 0) {
      spdlog::warn("{}: {} rows held bytes that are not UTF-8, replaced by U+FFFD", name,
                   with_thousands(rows.num_replaced));
    }
    inputs_.description[name] = Json{{"rows", encoded.num_rows()},
                                     {"tokens", encoded.input_ids.size()},
                                     {"truncated", encoded.num_truncated}};
    last_fingerprint_ = encoded.fingerprint;
    return to_device(encoded, device_);
  }

  const std::string& last_fingerprint() const { return last_fingerprint_; }

 private:
  EncodeOptions options_;
  c10::Device device_;
  Inputs& inputs_;
  std::string last_fingerprint_;
};

std::map<std::string, DeviceDataset> load_split(const std::vector<std::filesystem::path>& files,
                                                const std::string& split, const DataConfig& data,
                                                SplitLoader& loader) {
  std::map<std::string, DeviceDataset> datasets;
  for (const auto& file : files) {
    const std::string name = files.size() == 1 ? split : file.filename().string();
    datasets.emplace(name, loader.load(name, read_dataset({file}, data, LabelPresence::kRequired)));
  }
  return datasets;
}

void check_vocabulary(const Tokenizer& tokenizer, const EncoderConfig& encoder) {
  if (tokenizer.vocab_size() <= encoder.vocab_size) return;
  throw CheckpointError("the tokenizer has " + std::to_string(tokenizer.vocab_size()) +
                        " ids, the model's vocab_size is " + std::to_string(encoder.vocab_size) +
                        ": they do not belong together. Take the tokenizer files that came with the weights");
}

}  // namespace

Inputs load_inputs(const RunConfig& config, c10::Device device) {
  Inputs inputs;
  inputs.model_config = read_model_config(config.model.path);
  inputs.encoder = read_encoder_config(inputs.model_config, config.model);
  inputs.tokenizer = load_tokenizer(config.model.path);
  check_vocabulary(*inputs.tokenizer, inputs.encoder);

  TextDataset train =
      read_dataset(config.data.train, config.data, LabelPresence::kRequired, config.data.max_rows);
  std::optional<TextDataset> held_out;
  if (config.data.validation.empty() && config.data.validation_fraction > 0) {
    held_out = split_off(train, config.data.validation_fraction, config.seed);
  }
  inputs.task = make_task(config.task, choose_labels(config, train, inputs.model_config));

  SplitLoader loader(encode_options(config.data, inputs.encoder.max_positions), device, inputs);
  inputs.train = loader.load("train", train);
  inputs.fingerprint = loader.last_fingerprint();
  train = {};
  if (held_out) inputs.validation.emplace("validation", loader.load("validation", *held_out));
  if (!config.data.validation.empty()) {
    inputs.validation = load_split(config.data.validation, "validation", config.data, loader);
  }
  inputs.test = load_split(config.data.test, "test", config.data, loader);
  return inputs;
}

}  // namespace finetune
