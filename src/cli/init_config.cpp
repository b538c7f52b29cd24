#include "init_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <system_error>

#include "finetune/core/string_column.h"
#include "finetune/core/text.h"
#include "finetune/data/encoded_dataset.h"
#include "finetune/tasks/task.h"

namespace finetune::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostLabelsListed = 1'000;
/// Fewer updates seldom move a pretrained encoder, whatever they are of.
constexpr double kFewestUpdates = 300;

Json column_json(const ColumnName& column) {
  if (column.index) return *column.index;
  // In a config a dollar before a brace reads a variable.
  std::string name;
  for (size_t i = 0; i < column.name.size(); ++i) {
    if (column.name.compare(i, 2, "${") == 0) name += '$';
    name += column.name[i];
  }
  return name;
}

/// As the user would write it in a config in `folder`: absolute where it was named so.
std::string path_text(const fs::path& path, const fs::path& folder) {
  if (path.is_absolute()) return path.lexically_normal().string();
  const fs::path relative =
      fs::absolute(path).lexically_normal().lexically_relative(fs::absolute(folder).lexically_normal());
  return relative.empty() ? fs::absolute(path).lexically_normal().string() : relative.string();
}

/// The run's name: the data's, or its folder's where the file is just called train.
std::string run_name(const fs::path& data) {
  const fs::path whole = fs::absolute(data).lexically_normal();
  fs::path named = whole.has_filename() ? whole : whole.parent_path();
  std::string name = named.stem().string();
  if (name == "train" && named.parent_path().has_filename()) name = named.parent_path().filename().string();
  return name.empty() ? "finetune" : name;
}

std::string format_name(DataFormat format) {
  switch (format) {
    case DataFormat::kTsv:
      return "tsv";
    case DataFormat::kJsonl:
      return "jsonl";
    case DataFormat::kConll:
      return "conll";
    case DataFormat::kFolder:
      return "folder";
    default:
      return "csv";
  }
}

int64_t choose_max_length(const Job& job, std::vector<std::string>& reasons) {
  constexpr std::array kLengths{32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096, 8192};
  const LengthReport& lengths = job.rows.lengths;
  const int64_t covering = lengths.covering(0.99);
  int64_t chosen = kLengths.back();
  for (const int64_t length : kLengths) {
    if (length >= covering) {
      chosen = length;
      break;
    }
  }
  std::string why = "data.max_length: " + std::to_string(chosen) +
                    ", because 99 % of the rows have at most " + std::to_string(covering) +
                    " tokens (longest: " + std::to_string(lengths.longest) + ")";
  if (chosen > job.model.encoder.max_positions) {
    chosen = job.model.encoder.max_positions;
    why = "data.max_length: " + std::to_string(chosen) +
          ", the most that the model has positions for; 99 % of the rows " + "have at most " +
          std::to_string(covering) + " tokens, and what is longer is cut off";
  }
  reasons.push_back(std::move(why));
  return chosen;
}

Json data_section(const Job& job, std::vector<std::string>& reasons) {
  const DataConfig& data = job.guess.data;
  Json section{{"train", path_text(job.data, job.folder)}};
  if (!job.validation.empty()) section["validation"] = path_text(job.validation, job.folder);
  if (!job.test.empty()) section["test"] = path_text(job.test, job.folder);
  // What the name says need not be written.
  const bool named =
      job.data.extension() == "." + format_name(data.format) || data.format == DataFormat::kFolder;
  if (!named) section["format"] = format_name(data.format);
  if (data.encoding == TextEncoding::kLatin1) section["encoding"] = "latin-1";
  if (data.encoding == TextEncoding::kUtf16) section["encoding"] = "utf-16";
  if (data.encoding == TextEncoding::kUtf8Replace) section["encoding"] = "utf-8-replace";
  if (data.header == HeaderMode::kAbsent) section["header"] = false;
  if (data.delimiter) section["delimiter"] = std::string(1, *data.delimiter);
  const bool own_columns = data.format == DataFormat::kConll || data.format == DataFormat::kFolder;
  if (!own_columns) {
    if (data.tokens) section["tokens"] = column_json(*data.tokens);
    if (!data.tokens) section["text"] = column_json(data.text);
    if (data.text_pair) section["text_pair"] = column_json(*data.text_pair);
    if (data.fields) section["fields"] = column_json(*data.fields);
    if (data.positions) section["positions"] = column_json(*data.positions);
    section["label"] = column_json(data.label);
    if (data.label_shape == LabelShape::kClasses && data.label_separator != ",") {
      section["label_separator"] = data.label_separator;
    }
  }
  section["max_length"] = choose_max_length(job, reasons);
  if (job.validation.empty()) {
    const double fraction = job.table.num_rows < 200 ? 0.2 : 0.1;
    section["validation_fraction"] = fraction;
    char text[16];
    std::snprintf(text, sizeof(text), "%g", fraction);
    reasons.push_back(std::string("data.validation_fraction: ") + text +
                      ", because no file beside the data is called dev, valid or validation");
  }
  return section;
}

/// The classes in the order in which training would learn them: so that one which is missing among the rows
/// that are left to learn from is known all the same.
Json labels_json(const Job& job) {
  if (job.guess.labels.empty() || job.guess.labels.size() > kMostLabelsListed || !job.guess.has_all_labels ||
      !job.table.whole)
    return nullptr;
  StringColumn names;
  for (const auto& [name, count] : job.guess.labels) {
    // Counted by its beginning, or with blanks that belong to it: training learns such names better.
    if (name.size() >= ValueCounts::kLongestValue || name.find("${") != std::string::npos) return nullptr;
    names.push_back(name);
  }
  const LabelMap map = LabelMap::learn(names);
  if (map.size() < 2) return nullptr;
  return map.names();
}

Json train_section(const Job& job, std::vector<std::string>& reasons) {
  const double held_out = job.validation.empty() ? (job.table.num_rows < 200 ? 0.2 : 0.1) : 0.0;
  const double rows = static_cast<double>(job.table.num_rows) * (1 - held_out);
  const int64_t batch_size = rows < 500 ? 8 : rows < 2'000 ? 16 : 32;
  const double updates = std::ceil(rows / static_cast<double>(batch_size));
  const auto epochs = static_cast<int64_t>(std::clamp(std::ceil(kFewestUpdates / updates), 3.0, 20.0));
  reasons.push_back("train.batch_size: " + std::to_string(batch_size) +
                    ", train.epochs: " + std::to_string(epochs) + ", which makes about " +
                    with_thousands(std::llround(updates) * epochs) + " updates of " +
                    (job.table.whole ? "" : "at least ") + with_thousands(std::llround(rows)) + " rows");
  return {{"epochs", epochs}, {"batch_size", batch_size}};
}

double choose_learning_rate(const Job& job, std::vector<std::string>& reasons) {
  const int64_t width = job.model.encoder.hidden_size;
  double rate = 1e-4;
  std::string why = "because the encoder is small";
  if (!job.model.has_weights) {
    rate = 1e-3;
    why = "because the encoder learns from random weights";
  } else if (width >= 1024) {
    rate = 1e-5;
    why = "the usual one for large encoders";
  } else if (width >= 768) {
    rate = 2e-5;
    why = "the usual one for encoders of this width; 3e-5 and 5e-5 are worth a try";
  }
  char text[16];
  std::snprintf(text, sizeof(text), "%g", rate);
  reasons.push_back(std::string("optimizer.learning_rate: ") + text + ", " + why);
  return rate;
}

std::string choose_metric(const Job& job, std::vector<std::string>& reasons) {
  const auto& labels = job.guess.labels;
  const bool unequal = labels.size() > 1 && labels.front().second >= 3 * labels.back().second;
  std::string metric = "accuracy";
  std::string why = "because the classes are about equally frequent";
  switch (job.guess.task) {
    case TaskType::kMultiLabelClassification:
      metric = "micro_f1";
      why = "the usual one where a row has several labels";
      break;
    case TaskType::kRegression:
      metric = "mse";
      why = "the mean squared error";
      break;
    case TaskType::kTokenClassification: {
      const bool entities = std::any_of(labels.begin(), labels.end(), [](const auto& label) {
        return label.first.starts_with("B-") || label.first.starts_with("I-");
      });
      metric = entities ? "f1" : unequal ? "macro_f1" : "accuracy";
      why = entities ? "of whole entities, because the tags begin with B- and I-" : "over the items";
      break;
    }
    default:
      if (unequal) {
        metric = "macro_f1";
        why = "because the classes are not equally frequent (" + with_thousands(labels.front().second) +
              " to " + with_thousands(labels.back().second) + " rows)";
      }
  }
  reasons.push_back("checkpoint.metric: " + metric + ", " + why);
  return metric;
}

}  // namespace

Siblings find_siblings(const fs::path& data) {
  const fs::path whole = data.has_filename() ? data : data.parent_path();
  const std::string stem = whole.stem().string();
  const std::string extension = whole.extension().string();
  const size_t train = stem.rfind("train");
  const auto look_for = [&](std::initializer_list<const char*> names) -> fs::path {
    for (const char* name : names) {
      std::string file = name;
      if (train != std::string::npos) {
        file = stem;
        file.replace(train, std::string_view("train").size(), name);
      }
      if (file == stem) return {};  // the data itself is of this kind
      const fs::path path = whole.parent_path() / (file + extension);
      std::error_code ignored;
      if (fs::exists(path, ignored)) return path;
    }
    return {};
  };
  return {.validation = look_for({"dev", "valid", "validation", "val", "eval"}), .test = look_for({"test"})};
}

Json make_config(const Job& job, std::vector<std::string>& reasons) {
  Json config{{"output_dir", "runs/" + run_name(job.data)}};
  const bool is_folder = job.model.name == job.model.directory.string();
  config["model"] = {{"path", is_folder ? path_text(job.model.name, job.folder) : job.model.name}};
  if (!job.model.has_weights) {
    config["model"]["init"] = "random";
    reasons.push_back("model.init: random, because " + job.model.name + " holds no weights");
  }
  config["task"] = {{"type", task_name(job.guess.task)}};
  if (Json labels = labels_json(job); !labels.is_null()) config["task"]["labels"] = std::move(labels);
  config["data"] = data_section(job, reasons);
  config["train"] = train_section(job, reasons);
  config["optimizer"] = {{"learning_rate", choose_learning_rate(job, reasons)}};
  config["schedule"] = {{"warmup", 0.1}};
  config["checkpoint"] = {{"metric", choose_metric(job, reasons)}};
  return config;
}

}  // namespace finetune::cli
