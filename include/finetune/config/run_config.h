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

enum class TaskType {
  kSequenceClassification,
  kMultiLabelClassification,
  kRegression,
  kTokenClassification,
  kMaskedLm,
};
enum class LossType { kCrossEntropy, kFocal };

/// A weight for each label: in the order of their ids, by name (1 where a name is missing), or taken from how
/// often each occurs. Nothing of it: all weigh 1.
struct LabelWeights {
  bool balanced = false;
  std::vector<double> values;
  std::map<std::string, double> by_label;

  bool empty() const { return !balanced && values.empty() && by_label.empty(); }
  bool operator==(const LabelWeights&) const = default;
};

struct TaskConfig {
  TaskType type = TaskType::kSequenceClassification;
  std::vector<std::string> labels;  ///< order of the classes; empty: learned from the training data, sorted
  int64_t ignore_index = -100;      ///< a label with this id adds nothing to loss or metrics
  double label_smoothing = 0.0;
  LossType loss = LossType::kCrossEntropy;
  double focal_gamma = 2.0;
  LabelWeights class_weights;   ///< of the classes in the loss
  LabelWeights pos_weight;      ///< of a label that holds against one that does not (multi-label)
  double threshold = 0.5;       ///< a label holds from this probability on (multi-label)
  double mask_fraction = 0.15;  ///< of a row's tokens that are hidden and learned (masked language model)

  bool operator==(const TaskConfig&) const = default;
};

enum class WeightInit { kPretrained, kRandom };

/// Every match of a regular expression (ECMAScript) in the name of a foreign tensor is replaced.
struct Rename {
  std::string pattern;
  std::string replacement;  ///< `$1`: what the first group matched

  bool operator==(const Rename&) const = default;
};

/// What of the encoder the head reads. Only `kPooler`, the family's own, is Hugging Face's head.
enum class Pooling { kPooler, kCls, kMean };

/// Layers learn from the top down, one more each time `every` has passed
/// (ULMFiT's gradual unfreezing, Howard and Ruder 2018).
struct UnfreezeConfig {
  Interval every;

  bool operator==(const UnfreezeConfig&) const = default;
};

/// Low-rank adaptation (Hu et al. 2021): W + alpha / rank * B A, W frozen.
struct LoraConfig {
  int64_t rank = 8;
  double alpha = 16;
  double dropout = 0.0;
  std::vector<std::string> targets;  ///< patterns of the names of linear layers; empty: queries and values

  bool operator==(const LoraConfig&) const = default;
};

/// An exponential moving average of the weights, which evaluation and export use.
struct EmaConfig {
  double decay = 0.999;

  bool operator==(const EmaConfig&) const = default;
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
  Pooling pooling = Pooling::kPooler;
  std::vector<std::string> freeze;  ///< name patterns of parameters that do not learn
  std::optional<UnfreezeConfig> unfreeze;
  std::optional<LoraConfig> lora;
  std::optional<EmaConfig> ema;

  bool operator==(const ModelConfig&) const = default;
};

enum class DataFormat { kAuto, kCsv, kTsv, kJsonl, kConll, kFolder, kText };
enum class TextEncoding { kUtf8, kUtf8Replace, kLatin1, kUtf16 };
enum class HeaderMode { kAuto, kPresent, kAbsent };
/// Where the encoded training rows lie: on the device, or on the host, from where they are streamed.
enum class Residency { kAuto, kDevice, kStream };
enum class Truncation { kLongestFirst, kOnlyFirst, kOnlySecond, kNone };

enum class PositionUnit { kTokens, kCharacters };
/// What a row's label is; follows from the task.
enum class LabelShape {
  kClass,    ///< one class
  kClasses,  ///< any number of classes
  kValue,    ///< a number
  kItems,    ///< a class for each of the row's words, fields or positions
  kNone,     ///< nothing: its tokens are learned
};

LabelShape label_shape(TaskType task);

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
  LabelShape label_shape = LabelShape::kClass;
  std::string label_separator = ",";    ///< between the classes of a row in one field
  std::optional<ColumnName> tokens;     ///< a list of words, each with a label
  std::optional<ColumnName> fields;     ///< a list of texts that follow the text, each with a label
  std::optional<ColumnName> positions;  ///< a list of places in the text, each with a label
  PositionUnit position_unit = PositionUnit::kTokens;
  int64_t max_length = 512;  ///< tokens a row, special tokens included; clamped to the model's positions
  Truncation truncation = Truncation::kLongestFirst;
  std::optional<int64_t> stride;  ///< tokens that two windows of a long text share; unset: texts are cut off
  double validation_fraction = 0.0;  ///< of the training rows, when `validation` is empty
  bool stratify = true;              ///< the part for validation has each class in its own share
  std::optional<int64_t> max_rows;   ///< the first N training rows
  bool shuffle = true;
  std::filesystem::path cache_dir = "auto";  ///< of encoded rows; `auto`: the user's cache, `none`: no cache
  Residency residency = Residency::kAuto;
  AutoCount workers;

  bool operator==(const DataConfig&) const = default;
};

enum class Precision { kAuto, kFp32, kTf32, kBf16, kFp16 };
enum class OnNonfinite { kSkip, kAbort };

/// Training ends when `checkpoint.metric` has not improved by more than `min_delta` in `patience`
/// evaluations.
struct EarlyStopping {
  int64_t patience = 3;
  double min_delta = 0.0;

  bool operator==(const EarlyStopping&) const = default;
};

struct TrainConfig {
  std::optional<double> epochs;      ///< total; loading sets 3 where neither this nor max_steps is given
  std::optional<int64_t> max_steps;  ///< total updates
  int64_t batch_size = 32;           ///< rows an update, over all ranks and micro-batches
  AutoCount micro_batch_size;        ///< rows a forward pass
  Precision precision = Precision::kAuto;
  bool drop_last = false;
  bool cuda_graphs = false;
  Interval eval_every{1, Interval::Unit::kEpochs};
  Interval log_every{10, Interval::Unit::kSteps};
  OnNonfinite on_nonfinite = OnNonfinite::kAbort;
  std::optional<EarlyStopping> early_stopping;

  bool operator==(const TrainConfig&) const = default;
};

enum class OptimizerType { kAdamW, kAdam, kSgd };

/// Settings of their own for the parameters whose names match one of the patterns; the first group that
/// matches counts.
struct ParameterGroup {
  std::vector<std::string> patterns;
  std::optional<double> learning_rate;  ///< unset: the optimizer's
  std::optional<double> weight_decay;   ///< unset: the optimizer's

  bool operator==(const ParameterGroup&) const = default;
};

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
  double layerwise_lr_decay = 1.0;     ///< factor of the learning rate from each layer to the one below it
  std::vector<ParameterGroup> groups;  ///< beside the two by `no_decay`

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
  bool html = true;          ///< RUN/report.html, at the end and now and then while the run goes on
  bool tensorboard = false;  ///< RUN/events.out.tfevents.*

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
