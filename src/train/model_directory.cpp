#include "finetune/train/model_directory.h"

#include <algorithm>

#include "finetune/checkpoint/pretrained.h"
#include "finetune/config/load.h"
#include "finetune/core/error.h"
#include "finetune/core/file.h"
#include "finetune/core/log.h"
#include "finetune/core/text.h"
#include "model_card.h"
#include "named_tensors.h"

namespace finetune {
namespace {

constexpr const char* kSettingsFile = "finetune.json";

Json column_json(const ColumnName& column) {
  if (column.index) return *column.index;
  return column.name;
}

ColumnName column_from(const Json& json) {
  if (json.is_number_unsigned()) return {"", json.get<size_t>()};
  return {json.get<std::string>(), {}};
}

Json settings_json(const Task& task, const RunConfig& config) {
  const Json resolved = to_json(config);
  return Json{
      {"format", 1},
      {"task", task_name(config.task.type)},
      {"labels", task.labels().names()},
      {"columns", Json{{"text", column_json(config.data.text)},
                       {"text_pair", config.data.text_pair ? column_json(*config.data.text_pair) : Json()},
                       {"label", column_json(config.data.label)}}},
      {"max_length", config.data.max_length},
      {"truncation", resolved.at("data").at("truncation")}};
}

Truncation truncation_from(const std::string& name) {
  if (name == "only_first") return Truncation::kOnlyFirst;
  if (name == "only_second") return Truncation::kOnlySecond;
  if (name == "none") return Truncation::kNone;
  return Truncation::kLongestFirst;
}

/// The data settings and labels that `finetune.json` remembers. False where there is no such file.
bool read_settings(const std::filesystem::path& directory, DataConfig& data,
                   std::vector<std::string>& labels) {
  const auto path = directory / kSettingsFile;
  if (!std::filesystem::exists(path)) return false;
  try {
    const Json json = Json::parse(read_file(path));
    labels = json.at("labels").get<std::vector<std::string>>();
    data.text = column_from(json.at("columns").at("text"));
    if (!json.at("columns").at("text_pair").is_null())
      data.text_pair = column_from(json.at("columns").at("text_pair"));
    data.label = column_from(json.at("columns").at("label"));
    data.max_length = json.at("max_length").get<int64_t>();
    data.truncation = truncation_from(json.at("truncation").get<std::string>());
  } catch (const Json::exception& error) {
    throw CheckpointError(path.string() + ": " + error.what() +
                          "; restore the file, or delete it to use config.json's labels");
  }
  return true;
}

std::vector<std::string> labels_of_config(const Json& model_config, const std::filesystem::path& directory) {
  std::vector<std::string> labels;
  const auto id2label = model_config.find("id2label");
  if (id2label != model_config.end() && id2label->is_object()) {
    for (size_t id = 0; id2label->contains(std::to_string(id)); ++id) {
      labels.push_back(id2label->at(std::to_string(id)).get<std::string>());
    }
  }
  if (labels.size() < 2) {
    throw CheckpointError(
        directory.string() +
        ": neither finetune.json nor id2label in config.json names the labels; this is not a "
        "classifier. Train one with: finetune --config CONFIG");
  }
  return labels;
}

}  // namespace

EncodeOptions encode_options(const DataConfig& data, int64_t max_positions) {
  EncodeOptions options;
  options.max_length = data.max_length;
  if (options.max_length > max_positions) {
    spdlog::info("data.max_length {} is clamped to the model's {} positions", data.max_length, max_positions);
    options.max_length = max_positions;
  }
  switch (data.truncation) {
    case Truncation::kLongestFirst:
      options.truncation = TruncationStrategy::kLongestFirst;
      break;
    case Truncation::kOnlyFirst:
      options.truncation = TruncationStrategy::kOnlyFirst;
      break;
    case Truncation::kOnlySecond:
      options.truncation = TruncationStrategy::kOnlySecond;
      break;
    case Truncation::kNone:
      options.truncation = TruncationStrategy::kNone;
      break;
  }
  return options;
}

TrainedModel load_trained_model(const std::filesystem::path& directory, c10::Device device) {
  const Json model_config = read_model_config(directory);
  const EncoderConfig encoder = read_encoder_config(model_config, ModelConfig{});
  TrainedModel trained;
  std::vector<std::string> labels;
  if (!read_settings(directory, trained.data, labels)) labels = labels_of_config(model_config, directory);
  trained.tokenizer = load_tokenizer(directory);
  trained.task = make_task(TaskConfig{}, LabelMap(labels));
  trained.model = std::make_unique<Classifier>(encoder, trained.task->head(), device);
  const LoadReport report =
      load_pretrained(directory, named_tensors(trained.model->parameters()), trained.model->base_prefix());
  if (!report.missing.empty()) {
    throw CheckpointError(directory.string() + ": the weights lack " + join_some(report.missing) +
                          "; this is not a whole classifier. Train one with: finetune --config CONFIG");
  }
  return trained;
}

void save_trained_model(const std::filesystem::path& directory, const Json& source_config,
                        const std::vector<Parameter>& parameters, const Tokenizer& tokenizer,
                        const Task& task, const RunConfig& config, const Json& metrics) {
  Json model_config = source_config;
  Json id2label = Json::object(), label2id = Json::object();
  for (int64_t id = 0; id < task.labels().size(); ++id) {
    id2label[std::to_string(id)] = task.labels().name(id);
    label2id[task.labels().name(id)] = id;
  }
  model_config["architectures"] = {
      architecture_name(read_encoder_config(source_config, config.model), task.head().kind)};
  model_config["id2label"] = id2label;
  model_config["label2id"] = label2id;
  model_config["problem_type"] = "single_label_classification";
  export_model_directory(
      directory, model_config, named_tensors(parameters), [&](const std::filesystem::path& folder) {
        tokenizer.save(folder);
        write_file_atomically(folder / kSettingsFile, settings_json(task, config).dump(2) + "\n");
        write_file_atomically(folder / "README.md", model_card(config, task, metrics));
      });
}

}  // namespace finetune
