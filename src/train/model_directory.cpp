#include "finetune/train/model_directory.h"

#include <algorithm>
#include <optional>

#include "finetune/checkpoint/pretrained.h"
#include "finetune/config/load.h"
#include "finetune/core/error.h"
#include "finetune/core/file.h"
#include "finetune/core/log.h"
#include "finetune/core/text.h"
#include "finetune/model/projection.h"
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

Json optional_column_json(const std::optional<ColumnName>& column) {
  return column ? column_json(*column) : Json();
}

std::optional<ColumnName> optional_column_from(const Json& columns, const char* key) {
  const auto found = columns.find(key);
  if (found == columns.end() || found->is_null()) return std::nullopt;
  return column_from(*found);
}

/// What of the task decides losses and answers.
Json task_settings_json(const TaskConfig& task) {
  Json settings{{"ignore_index", task.ignore_index}};
  switch (task.type) {
    case TaskType::kRegression:
      break;
    case TaskType::kMultiLabelClassification:
      settings["threshold"] = task.threshold;
      if (!task.pos_weight.empty()) settings["pos_weight"] = task.pos_weight.values;
      break;
    default:
      settings["label_smoothing"] = task.label_smoothing;
      if (task.loss == LossType::kFocal) settings["focal_gamma"] = task.focal_gamma;
      if (!task.class_weights.empty()) settings["class_weights"] = task.class_weights.values;
  }
  return settings;
}

void read_task_settings(const Json& settings, TaskConfig& task) {
  task.ignore_index = settings.value("ignore_index", task.ignore_index);
  task.threshold = settings.value("threshold", task.threshold);
  task.pos_weight.values = settings.value("pos_weight", std::vector<double>());
  task.label_smoothing = settings.value("label_smoothing", 0.0);
  if (settings.contains("focal_gamma")) {
    task.loss = LossType::kFocal;
    task.focal_gamma = settings.at("focal_gamma").get<double>();
  }
  task.class_weights.values = settings.value("class_weights", std::vector<double>());
}

Json settings_json(const Task& task, const RunConfig& config) {
  const Json resolved = to_json(config);
  const DataConfig& data = config.data;
  return Json{{"format", 1},
              {"task", task_name(task.config().type)},
              {"task_settings", task_settings_json(task.config())},
              {"labels", task.labels().names()},
              {"columns", Json{{"text", column_json(data.text)},
                               {"text_pair", optional_column_json(data.text_pair)},
                               {"label", column_json(data.label)},
                               {"tokens", optional_column_json(data.tokens)},
                               {"fields", optional_column_json(data.fields)},
                               {"positions", optional_column_json(data.positions)}}},
              {"label_separator", data.label_separator},
              {"position_unit", resolved.at("data").at("position_unit")},
              {"pooling", resolved.at("model").at("pooling")},
              {"max_length", data.max_length},
              {"stride", resolved.at("data").at("stride")},
              {"truncation", resolved.at("data").at("truncation")}};
}

Truncation truncation_from(const std::string& name) {
  if (name == "only_first") return Truncation::kOnlyFirst;
  if (name == "only_second") return Truncation::kOnlySecond;
  if (name == "none") return Truncation::kNone;
  return Truncation::kLongestFirst;
}

Pooling pooling_from(const std::string& name) {
  if (name == "cls") return Pooling::kCls;
  if (name == "mean") return Pooling::kMean;
  return Pooling::kPooler;
}

/// What a model directory says of its task.
struct Settings {
  TaskConfig task;
  DataConfig data;
  ModelConfig model;
  std::vector<std::string> labels;
};

TaskType task_type_from(const std::string& name, const std::filesystem::path& path) {
  if (const auto type = task_type(name)) return *type;
  throw CheckpointError(
      path.string() + ": found the task '" + name +
      "', which this version does not know; restore the file, or use the version that wrote it");
}

/// The settings that `finetune.json` remembers. Nothing where there is no such file.
std::optional<Settings> read_settings(const std::filesystem::path& directory) {
  const auto path = directory / kSettingsFile;
  if (!std::filesystem::exists(path)) return std::nullopt;
  Settings settings;
  DataConfig& data = settings.data;
  try {
    const Json json = Json::parse(read_file(path));
    settings.task.type = task_type_from(json.at("task").get<std::string>(), path);
    if (json.contains("task_settings")) read_task_settings(json.at("task_settings"), settings.task);
    settings.labels = json.at("labels").get<std::vector<std::string>>();
    const Json& columns = json.at("columns");
    data.text = column_from(columns.at("text"));
    data.label = column_from(columns.at("label"));
    data.text_pair = optional_column_from(columns, "text_pair");
    data.tokens = optional_column_from(columns, "tokens");
    data.fields = optional_column_from(columns, "fields");
    data.positions = optional_column_from(columns, "positions");
    data.label_separator = json.value("label_separator", data.label_separator);
    if (json.value("position_unit", "tokens") == "characters") data.position_unit = PositionUnit::kCharacters;
    settings.model.pooling = pooling_from(json.value("pooling", "pooler"));
    data.max_length = json.at("max_length").get<int64_t>();
    if (const Json stride = json.value("stride", Json()); !stride.is_null())
      data.stride = stride.get<int64_t>();
    data.truncation = truncation_from(json.at("truncation").get<std::string>());
  } catch (const Json::exception& error) {
    throw CheckpointError(path.string() + ": " + error.what() +
                          "; restore the file, or delete it to use config.json's labels");
  }
  return settings;
}

std::vector<std::string> labels_of_config(const Json& model_config, const std::filesystem::path& directory) {
  std::vector<std::string> labels;
  const auto id2label = model_config.find("id2label");
  if (id2label != model_config.end() && id2label->is_object()) {
    for (size_t id = 0; id2label->contains(std::to_string(id)); ++id) {
      labels.push_back(id2label->at(std::to_string(id)).get<std::string>());
    }
  }
  if (labels.empty()) {
    throw CheckpointError(
        directory.string() +
        ": neither finetune.json nor id2label in config.json names the labels; this is not a "
        "classifier. Train one with: finetune --config CONFIG");
  }
  return labels;
}

/// What a Hugging Face directory that is not ours says of its task.
Settings settings_of_config(const Json& model_config, const std::filesystem::path& directory) {
  Settings settings;
  settings.labels = labels_of_config(model_config, directory);
  const std::string problem = model_config.value("problem_type", Json()).is_string()
                                  ? model_config.at("problem_type").get<std::string>()
                                  : std::string();
  const Json architectures = model_config.value("architectures", Json::array());
  const std::string architecture = !architectures.empty() && architectures[0].is_string()
                                       ? architectures[0].get<std::string>()
                                       : std::string();
  if (architecture.ends_with("ForTokenClassification")) {
    settings.task.type = TaskType::kTokenClassification;
    settings.data.tokens = ColumnName{"tokens", {}};
    settings.data.label = ColumnName{"tags", {}};
  } else if (problem == "multi_label_classification") {
    settings.task.type = TaskType::kMultiLabelClassification;
  } else if (problem == "regression" || settings.labels.size() == 1) {
    settings.task.type = TaskType::kRegression;
  }
  return settings;
}

}  // namespace

RowOptions encode_options(const DataConfig& data, int64_t max_positions) {
  RowOptions options;
  options.stride = data.stride;
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
  std::optional<Settings> settings = read_settings(directory);
  if (!settings) settings = settings_of_config(model_config, directory);
  if (settings->task.type == TaskType::kMaskedLm) {
    throw ConfigError(directory.string() +
                      ": found a masked language model, expected a classifier; train one from it, with this "
                      "directory as model.path");
  }
  const EncoderConfig encoder = read_encoder_config(model_config, settings->model);
  settings->data.label_shape = label_shape(settings->task.type);
  TrainedModel trained;
  trained.data = settings->data;
  trained.tokenizer = load_tokenizer(directory);
  trained.task = make_task(settings->task, LabelMap(settings->labels), trained.data);
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
  for (const char* key : {"id2label", "label2id"}) model_config.erase(key);
  if (!id2label.empty()) {
    model_config["id2label"] = id2label;
    model_config["label2id"] = label2id;
  }
  if (task.problem_type().empty()) {
    model_config.erase("problem_type");
  } else {
    model_config["problem_type"] = task.problem_type();
  }
  NamedTensors weights = named_tensors(parameters);
  std::erase_if(weights, [](const NamedTensor& weight) { return is_adapter(weight.name); });
  export_model_directory(directory, model_config, weights, [&](const std::filesystem::path& folder) {
    tokenizer.save(folder);
    write_file_atomically(folder / kSettingsFile, settings_json(task, config).dump(2) + "\n");
    write_file_atomically(folder / "README.md", model_card(config, task, metrics));
  });
}

}  // namespace finetune
