#include "finetune/train/inputs.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <set>

#include "finetune/checkpoint/pretrained.h"
#include "finetune/config/load.h"
#include "finetune/core/error.h"
#include "finetune/core/log.h"
#include "finetune/core/signals.h"
#include "finetune/core/text.h"
#include "finetune/data/encoded_rows.h"
#include "finetune/data/token_cache.h"
#include "finetune/device/available_memory.h"
#include "finetune/train/model_directory.h"
#include "row_checks.h"

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
  if (config.data.label_shape == LabelShape::kNone) return LabelMap();
  if (!config.task.labels.empty()) return LabelMap(config.task.labels);
  if (auto fixed = fixed_labels(config.task.type); !fixed.empty()) return LabelMap(std::move(fixed));
  LabelMap learned = LabelMap::learn(train.labels, config.task.ignore_index);
  const auto of_model = labels_of_model(model_config);
  if (std::set<std::string>(of_model.begin(), of_model.end()) ==
          std::set<std::string>(learned.names().begin(), learned.names().end()) &&
      of_model.size() == learned.names().size()) {
    return LabelMap(of_model);
  }
  const bool one_is_enough = config.task.type == TaskType::kMultiLabelClassification;
  if (learned.size() < (one_is_enough ? 1 : 2)) {
    if (learned.size() == 0) {
      throw DataError(train.files.front().string() +
                      ": no row has a label; set data.label to the right column");
    }
    throw DataError(train.files.front().string() + ": column '" + config.data.label.name +
                    "' holds one class only ('" + learned.name(0) +
                    "'); a classifier needs at least two. Is it the right column?");
  }
  return learned;
}

/// Reads and encodes splits, or takes them from the cache of encoded rows, and puts them on the device.
class SplitLoader {
 public:
  SplitLoader(const RunConfig& config, c10::Device device, Inputs& inputs)
      : config_(config),
        device_(device),
        inputs_(inputs),
        options_(encode_options(config.data, inputs.encoder.max_positions)),
        cache_(config.data.cache_dir) {}

  /// The training split, what is held out of it, and the task, whose labels may be learned from them.
  void load_train() {
    EncodedSplits splits =
        cache_.get(config_.data.train, settings(Role::kTraining), [&] { return encode_train(); });
    const LabelMap labels(splits.facts.at("labels").get<std::vector<std::string>>());
    inputs_.task = make_task(with_resolved_weights(config_.task, labels, splits.splits.at("train")), labels,
                             config_.data, inputs_.tokenizer.get());
    inputs_.fingerprint = splits.splits.at("train").fingerprint;
    for (auto& [name, dataset] : splits.splits) {
      if (name == "train") {
        inputs_.train = publish(name, std::move(dataset), config_.data.residency);
      } else {
        inputs_.validation.emplace(name, publish(name, std::move(dataset)));
      }
    }
  }

  std::map<std::string, DeviceDataset> load(const std::vector<std::filesystem::path>& files,
                                            const std::string& split) {
    std::map<std::string, DeviceDataset> datasets;
    for (const auto& file : files) {
      const std::string name = files.size() == 1 ? split : file.filename().string();
      EncodedSplits splits = cache_.get({file}, settings(Role::kEvaluation), [&] {
        EncodedSplits result;
        result.splits.emplace("rows", with_labels(encode({file}, std::nullopt), inputs_.task->labels(),
                                                  config_.task.ignore_index));
        return result;
      });
      datasets.emplace(name, publish(name, std::move(splits.splits.at("rows"))));
    }
    return datasets;
  }

 private:
  enum class Role { kTraining, kEvaluation };

  double held_out_fraction() const {
    return config_.data.validation.empty() ? config_.data.validation_fraction : 0;
  }

  /// All that decides how files become encoded rows, but for the files themselves.
  Json settings(Role role) const {
    const Json config = to_json(config_);
    Json data = config.at("data");
    for (const char* key : {"train", "validation", "test", "validation_fraction", "stratify", "max_rows",
                            "shuffle", "cache_dir", "residency", "workers"})
      data.erase(key);
    Json task = config.at("task");
    for (const char* key :
         {"label_smoothing", "class_weights", "pos_weight", "threshold", "loss", "focal_gamma"})
      task.erase(key);
    Json result{{"data", std::move(data)},
                {"task", std::move(task)},
                {"max_length", options_.max_length},
                {"max_positions", inputs_.encoder.max_positions},
                {"tokenizer", inputs_.tokenizer->fingerprint()}};
    if (role == Role::kEvaluation) {
      result["labels"] = inputs_.task->labels().names();
    } else {
      result["labels_of_model"] = labels_of_model(inputs_.model_config);
      result["max_rows"] = config.at("data").at("max_rows");
      if (held_out_fraction() > 0)
        result["held_out"] = {held_out_fraction(), config_.seed, config_.data.stratify};
    }
    return result;
  }

  EncodedSplits encode_train() const {
    EncodedRows train = encode(config_.data.train, config_.data.max_rows);
    std::optional<EncodedRows> held_out;
    if (held_out_fraction() > 0)
      held_out = split_off(train, held_out_fraction(), config_.seed, config_.data.stratify);
    const LabelMap labels = choose_labels(config_, train.rows, inputs_.model_config);
    EncodedSplits result;
    result.facts["labels"] = labels.names();
    result.splits.emplace("train", with_labels(std::move(train), labels, config_.task.ignore_index));
    if (held_out) {
      result.splits.emplace("validation",
                            with_labels(std::move(*held_out), labels, config_.task.ignore_index));
    }
    return result;
  }

  EncodedRows encode(const std::vector<std::filesystem::path>& files, std::optional<int64_t> max_rows) const {
    throw_if_stop_requested();
    const auto labels =
        config_.data.label_shape == LabelShape::kNone ? LabelPresence::kOptional : LabelPresence::kRequired;
    EncodedRows encoded = encode_files(files, config_.data, labels, max_rows, *inputs_.tokenizer, options_,
                                       at::get_num_threads());
    refuse_long_rows(encoded.rows, encoded.dataset, inputs_.encoder.max_positions);
    return encoded;
  }

  /// Says what there is to say about an encoded split, and puts it on the device.
  DeviceDataset publish(const std::string& name, EncodedDataset encoded,
                        Residency residency = Residency::kDevice) {
    if (encoded.num_truncated > 0) {
      spdlog::warn("{}: {} of {} rows are longer than {} tokens and were truncated (data.max_length)", name,
                   with_thousands(encoded.num_truncated), with_thousands(encoded.num_rows()),
                   options_.max_length);
    }
    if (encoded.num_replaced > 0) {
      spdlog::warn("{}: {} rows held bytes that are not UTF-8, replaced by U+FFFD", name,
                   with_thousands(encoded.num_replaced));
    }
    warn_of_lost_items(name, encoded.num_lost_items(), static_cast<int64_t>(encoded.target_positions.size()));
    inputs_.description[name] = Json{{"rows", encoded.num_rows()},
                                     {"tokens", encoded.input_ids.size()},
                                     {"truncated", encoded.num_truncated}};
    if (!encoded.text_offsets.empty()) inputs_.description[name]["texts"] = encoded.num_texts();
    inputs_.task->choose_targets(encoded);
    return place(name, std::move(encoded), residency);
  }

  DeviceDataset place(const std::string& name, EncodedDataset encoded, Residency residency) const {
    const c10::Device host(c10::kCPU);
    if (residency == Residency::kStream) return to_device(std::move(encoded), host);
    if (residency == Residency::kAuto && !device_.is_cpu()) {
      DeviceDataset dataset = to_device(std::move(encoded), host);
      const int64_t available = available_memory(device_).value_or(0);
      // Beside so little no step can fail; else the first steps show what is left (see Trainer).
      constexpr int64_t kSmallShare = 32;
      return dataset.nbytes() * kSmallShare < available ? dataset.to(device_) : dataset;
    }
    try {
      return to_device(std::move(encoded), device_);
    } catch (const c10::OutOfMemoryError& error) {
      throw DeviceError("the rows of '" + name + "' do not fit on " + device_.str() + ": " +
                        error.what_without_backtrace() +
                        (name == "train" ? "; set data.residency to \"stream\"" : "; use fewer rows"));
    }
  }

  const RunConfig& config_;
  c10::Device device_;
  Inputs& inputs_;
  RowOptions options_;
  TokenCache cache_;
};

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

  SplitLoader loader(config, device, inputs);
  loader.load_train();
  if (!config.data.validation.empty()) inputs.validation = loader.load(config.data.validation, "validation");
  inputs.test = loader.load(config.data.test, "test");
  return inputs;
}

}  // namespace finetune
