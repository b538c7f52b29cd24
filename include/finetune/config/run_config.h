#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace finetune {

/// A count that the program chooses where it is `automatic`.
struct AutoCount {
  bool automatic = true;
  int64_t value = 0;

  bool operator==(const AutoCount&) const = default;
};

/// A length of training: steps (updates), or epochs. A count of 0 means never.
struct Interval {
  enum class Unit { kSteps, kEpochs };
  double count = 0;
  Unit unit = Unit::kSteps;

  bool never() const { return count == 0; }

  bool operator==(const Interval&) const = default;
};

enum class TaskType { kSequenceClassification };

struct TaskConfig {
  TaskType type = TaskType::kSequenceClassification;
  std::vector<std::string> labels;  ///< order of the classes; empty: learned from the training data, sorted
  int64_t ignore_index = -100;      ///< a row with this label id adds nothing to loss or metrics
  double label_smoothing = 0.0;

  bool operator==(const TaskConfig&) const = default;
};

enum class WeightInit { kPretrained, kRandom };

/// Every match of a regular expression (ECMAScript) in the name of a foreign tensor is replaced.
struct Rename {
  std::string pattern;
  std::string replacement;  ///< `$1`: what the first group matched

  bool operator==(const Rename&) const = default;
};

struct ModelConfig {
  std::filesystem::path
      path;  ///< Hugging Face directory, absolute: a hub id is looked up when the config is loaded
  WeightInit init = WeightInit::kPretrained;
  std::vector<Rename> rename;                ///< of weights that have names of their own, in this order
  std::optional<double> dropout;             ///< unset: the model's own config.json
  std::optional<double> attention_dropout;   ///< unset: the model's own
  std::optional<double> classifier_dropout;  ///< unset: the model's own
  bool activation_checkpointing = false;

  bool operator==(const ModelConfig&) const = default;
};

enum class DataFormat { kAuto, kCsv, kTsv, kJsonl, kFolder };
enum class TextEncoding { kUtf8, kUtf8Replace, kLatin1, kUtf16 };
enum class HeaderMode { kAuto, kPresent, kAbsent };
/// Where the encoded training rows lie: on the device, or on the host, from where they are streamed.
enum class Residency { kAuto, kDevice, kStream };
enum class Truncation { kLongestFirst, kOnlyFirst, kOnlySecond, kNone };

/// A column by name, or by position from 0.
struct ColumnName {
  std::string name;
  std::optional<size_t> index;

  bool operator==(const ColumnName&) const = default;
};

struct DataConfig {
  std::vector<std::filesystem::path> train;
  std::vector<std::filesystem::path> validation;
  std::vector<std::filesystem::path> test;
  DataFormat format = DataFormat::kAuto;
  TextEncoding encoding = TextEncoding::kUtf8;
  HeaderMode header = HeaderMode::kAuto;
  std::optional<char> delimiter;  ///< unset: the format's own
  ColumnName text{"text", {}};
  std::optional<ColumnName> text_pair;
  ColumnName label{"label", {}};
  int64_t max_length = 512;  ///< tokens a row, special tokens included; clamped to the model's positions
  Truncation truncation = Truncation::kLongestFirst;
  double validation_fraction = 0.0;  ///< of the training rows, when `validation` is empty
  std::optional<int64_t> max_rows;   ///< the first N training rows
  bool shuffle = true;
  std::filesystem::path cache_dir = "auto";  ///< of encoded rows; `auto`: the user's cache, `none`: no cache
  Residency residency = Residency::kAuto;
  AutoCount workers;

  bool operator==(const DataConfig&) const = default;
};

enum class Precision { kAuto, kFp32, kTf32, kBf16, kFp16 };
enum class OnNonfinite { kSkip, kAbort };

struct TrainConfig {
  std::optional<double> epochs;      ///< total; loading sets 3 where neither this nor max_steps is given
  std::optional<int64_t> max_steps;  ///< total updates
  int64_t batch_size = 32;           ///< rows an update, over all ranks and micro-batches
  AutoCount micro_batch_size;        ///< rows a forward pass
  Precision precision = Precision::kAuto;
  bool drop_last = false;
  Interval eval_every{1, Interval::Unit::kEpochs};
  Interval log_every{10, Interval::Unit::kSteps};
  OnNonfinite on_nonfinite = OnNonfinite::kAbort;

  bool operator==(const TrainConfig&) const = default;
};

enum class OptimizerType { kAdamW, kAdam, kSgd };

struct OptimizerConfig {
  OptimizerType type = OptimizerType::kAdamW;
  double learning_rate = 2e-5;
  double weight_decay = 0.01;  ///< AdamW's default; loading sets 0 for adam and sgd unless it is given
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  bool amsgrad = false;
  double max_grad_norm = 1.0;  ///< 0: no clipping
  std::vector<std::string> no_decay{"bias", "bias.weight", "LayerNorm.weight",
                                    "norm.weight"};  ///< name patterns

  bool operator==(const OptimizerConfig&) const = default;
};

enum class ScheduleType { kLinear, kCosine, kConstant, kPolynomial, kInverseSqrt };

struct ScheduleConfig {
  ScheduleType type = ScheduleType::kLinear;
  double warmup = 0.0;  ///< below 1: a fraction of all steps; else a count of steps

  bool operator==(const ScheduleConfig&) const = default;
};

struct CheckpointConfig {
  Interval save_every{1, Interval::Unit::kEpochs};
  int64_t keep_last = 2;
  bool keep_best = true;
  std::string metric = "loss";  ///< of the validation data; what `best` means
  std::string mode = "auto";    ///< `min`, `max`, or `auto` by the metric

  bool operator==(const CheckpointConfig&) const = default;
};

struct LoggingConfig {
  bool jsonl = true;

  bool operator==(const LoggingConfig&) const = default;
};

/// Everything a run depends on, resolved and validated. Plain data: copy it freely.
struct RunConfig {
  std::filesystem::path output_dir = "runs/finetune";
  uint64_t seed = 42;
  std::string device = "auto";  ///< `auto`, `cpu`, `cuda`, `cuda:1`
  bool deterministic = false;
  int64_t threads = 0;  ///< 0: every core this process may use
  TaskConfig task;
  ModelConfig model;
  DataConfig data;
  TrainConfig train;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  CheckpointConfig checkpoint;
  LoggingConfig logging;

  bool operator==(const RunConfig&) const = default;
};

}  // namespace finetune
