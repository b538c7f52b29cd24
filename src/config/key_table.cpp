#include "key_table.h"

#include <type_traits>
#include <utility>

#include "metric_names.h"

namespace finetune::config {
namespace {

template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

/// Adds keys for the members of one struct, which `Get` finds in a RunConfig.
template <class Get>
class Section {
 public:
  Section(Get get, std::vector<Key>& keys) : get_(get), keys_(keys) {}

  /// A key that sets one member; an optional member may stay unset.
  template <class Member, class Kind>
  void key(const char* name, Member member, const Kind& kind, const char* doc) {
    add(
        name, doc, [ get = get_, member ](auto& config) -> auto& { return get(config).*member; }, kind);
  }

  /// A key without which a run cannot start.
  template <class Member, class Kind>
  void required(const char* name, Member member, const Kind& kind, const char* doc) {
    key(name, member, kind, doc);
    keys_.back().required = true;
  }

  /// A key whose kind sets several members of the struct.
  template <class Kind>
  void whole(const char* name, const Kind& kind, const char* doc) {
    add(name, doc, get_, kind);
  }

  /// A section below this one, for a member that is a struct; `fill` adds its keys.
  template <class Member, class Fill>
  void section(const char* name, Member member, const char* doc, Fill fill) {
    Key key;
    key.name = name;
    key.doc = doc;
    Section<std::decay_t<decltype(access(member))>> child(access(member), key.children);
    fill(child);
    keys_.push_back(std::move(key));
  }

 private:
  template <class Member>
  auto access(Member member) const {
    return [ get = get_, member ](auto& config) -> auto& { return get(config).*member; };
  }

  template <class Access, class Kind>
  void add(const char* name, const char* doc, Access access, const Kind& kind) {
    Key key;
    key.name = name;
    key.doc = doc;
    key.schema = kind.schema();
    key.read = [access, kind](const Json& value, const std::filesystem::path& base,
                              RunConfig& config) -> Refusal {
      auto& slot = access(config);
      if constexpr (kIsOptional<std::decay_t<decltype(slot)>>) {
        typename std::decay_t<decltype(slot)>::value_type content{};
        auto refusal = kind.read(value, base, content);
        if (!refusal) slot = content;
        return refusal;
      } else {
        return kind.read(value, base, slot);
      }
    };
    key.write = [access, kind](const RunConfig& config) -> Json {
      const auto& slot = access(config);
      if constexpr (kIsOptional<std::decay_t<decltype(slot)>>) {
        return slot ? kind.write(*slot) : Json(nullptr);
      } else {
        return kind.write(slot);
      }
    };
    keys_.push_back(std::move(key));
  }

  Get get_;
  std::vector<Key>& keys_;
};

constexpr auto kTaskKeys = [](auto& s) {
  using T = TaskConfig;
  s.key(
      "type", &T::type,
      Choice<TaskType>{{{TaskType::kSequenceClassification, "sequence_classification"},
                        {TaskType::kMultiLabelClassification, "multi_label_classification"},
                        {TaskType::kRegression, "regression"},
                        {TaskType::kTokenClassification, "token_classification"},
                        {TaskType::kMaskedLm, "masked_lm"}}},
      "What is learned: a class, any number of classes or a number for each row, hidden tokens of plain text "
      "(masked_lm, to make an encoder at home in a kind of text), or a class for each of a row's "
      "words (data.tokens), fields (data.fields) or places (data.positions).");
  s.key("labels", &T::labels, ClassNames{},
        "The classes in the order of their ids. Empty: learned from the training data, sorted.");
  s.key("ignore_index", &T::ignore_index, integer(), "A label with this id adds nothing to loss or metrics.");
  s.key("label_smoothing", &T::label_smoothing, fraction(),
        "The share of the target that is spread evenly over all classes.");
  s.key("loss", &T::loss,
        Choice<LossType>{{{LossType::kCrossEntropy, "cross_entropy"}, {LossType::kFocal, "focal"}}},
        "The loss of a class. focal: rows that are answered well already count less.");
  s.key("focal_gamma", &T::focal_gamma, at_least(0),
        "How much less: a row counts (1 - probability)^focal_gamma.");
  s.key(
      "class_weights", &T::class_weights, LabelWeightsKind{},
      "What each class weighs in the loss: a list in the order of the labels, an object from label to weight "
      "(others 1), or \"balanced\": rows / (classes * rows of the class), of the training data.");
  s.key("pos_weight", &T::pos_weight, LabelWeightsKind{},
        "For multi_label_classification, what a class weighs where it holds: as class_weights; \"balanced\": "
        "rows "
        "without it / rows with it.");
  s.key("mask_fraction", &T::mask_fraction, Number{.low = 0, .above_low = true, .end = 1.0},
        "For masked_lm: the share of a row's tokens that are hidden and told.");
  s.key("threshold", &T::threshold, Number{.low = 0, .above_low = true, .end = 1.0},
        "For multi_label_classification: the probability from which on a class is said to hold.");
};

constexpr auto kModelKeys = [](auto& s) {
  using T = ModelConfig;
  s.required(
      "path", &T::path, ModelPath{},
      "Folder in Hugging Face's layout (config.json, model.safetensors, tokenizer files), or the hub id of a "
      "model in the local Hugging Face cache.");
  s.key("init", &T::init,
        Choice<WeightInit>{{{WeightInit::kPretrained, "pretrained"}, {WeightInit::kRandom, "random"}}},
        "Where the first weights come from: the folder, or a random generator.");
  s.key("rename", &T::rename, RenameRules{},
        "How the names of foreign weights (a class of one's own around the encoder) become Hugging Face's: "
        "pairs of a "
        "regular expression and its replacement, applied in this order; names without module. and "
        "_orig_mod. are matched.");
  s.key("dropout", &T::dropout, fraction(),
        "Dropout of hidden states. Unset: as in the model's config.json.");
  s.key("attention_dropout", &T::attention_dropout, fraction(),
        "Dropout of attention probabilities. Unset: as in the model's config.json.");
  s.key("classifier_dropout", &T::classifier_dropout, fraction(),
        "Dropout before the classifier. Unset: as in the model's config.json.");
  s.key("freeze", &T::freeze, one_or_list_of(Pattern{}),
        "Parameters in whose names one of these regular expressions is found do not learn: "
        "\"[.]embeddings[.]\", "
        "\"[.]layer[.][0-5][.]\".");
  s.key("pooling", &T::pooling,
        Choice<Pooling>{{{Pooling::kPooler, "pooler"}, {Pooling::kCls, "cls"}, {Pooling::kMean, "mean"}}},
        "What the classifier of a row reads. pooler: as the family's class in transformers does. cls, mean: "
        "the last layer's first token, or the mean of its tokens, without a layer in between; transformers "
        "has no class for these heads.");
  s.key("unfreeze", &T::unfreeze, UnfreezeKind{},
        "Layers begin to learn from the top down: the head alone at first, one layer more each time `every` "
        "has passed, the embeddings last. Unset: all from the start.");
  s.key(
      "lora", &T::lora, LoraKind{},
      "Of the encoder only low-rank adapters of linear layers learn: rank, alpha, dropout, and targets, "
      "regular "
      "expressions that are found in the layers' names (\"query\", \"output[.]dense\"); without targets the "
      "queries and values. RUN/model has them merged, RUN/adapter has them as PEFT's.");
  s.key("ema", &T::ema, EmaKind{},
        "Keep an exponential moving average of the weights (decay) and evaluate and export it.");
  s.key("activation_checkpointing", &T::activation_checkpointing, Boolean{},
        "Keep only each layer's input for the backward pass and compute the rest anew: less memory, a third "
        "more work, the same numbers.");
};

constexpr auto kDataFileKeys = [](auto& s) {
  using T = DataConfig;
  s.required("train", &T::train, one_or_more(Path{}), "File or files to train on.");
  s.key("validation", &T::validation, one_or_list_of(Path{}),
        "File or files that choose the best checkpoint.");
  s.key("test", &T::test, one_or_list_of(Path{}), "File or files that are measured once, at the end.");
  s.key("format", &T::format,
        Choice<DataFormat>{{{DataFormat::kAuto, "auto"},
                            {DataFormat::kCsv, "csv"},
                            {DataFormat::kTsv, "tsv"},
                            {DataFormat::kJsonl, "jsonl"},
                            {DataFormat::kConll, "conll"},
                            {DataFormat::kFolder, "folder"},
                            {DataFormat::kText, "text"}}},
        "Layout of the files; auto goes by their names. text: one text a line, without labels. conll: a word "
        "and its tag a line (data.text and "
        "data.label may be numbers of columns). folder: one folder a class, one text a file.");
  s.key("encoding", &T::encoding,
        Choice<TextEncoding>{{{TextEncoding::kUtf8, "utf-8"},
                              {TextEncoding::kUtf8Replace, "utf-8-replace"},
                              {TextEncoding::kLatin1, "latin-1"},
                              {TextEncoding::kUtf16, "utf-16"}}},
        "Encoding of the files. utf-8 refuses other bytes; utf-8-replace replaces and counts them.");
  s.key("header", &T::header,
        Choice<HeaderMode>{
            {{HeaderMode::kAuto, "auto"}, {HeaderMode::kPresent, true}, {HeaderMode::kAbsent, false}}},
        "Whether the first line of a CSV or TSV file names the columns.");
  s.key("delimiter", &T::delimiter, Delimiter{}, "Separates fields. Unset: a comma for CSV, a tab for TSV.");
};

constexpr auto kDataKeys = [](auto& s) {
  using T = DataConfig;
  kDataFileKeys(s);
  s.key("text", &T::text, Column{}, "The column with the text: a name, or a number from 0.");
  s.key("text_pair", &T::text_pair, Column{}, "The column with a second text. Unset: rows have one text.");
  s.key("label", &T::label, Column{},
        "The column with the label, or with a list of them. Unset: label; tags for words.");
  s.key("label_separator", &T::label_separator, Text{},
        "For multi_label_classification: what stands between the labels of a row in one field.");
  s.key("tokens", &T::tokens, Column{},
        "For token_classification: the key with a list of words, each with a label. Unset: tokens.");
  s.key(
      "fields", &T::fields, Column{},
      "For token_classification: the key with a list of texts that follow the row's text, each after a mark "
      "([CLS] text [SEP] [CLS] field [SEP]...) at which its label is learned.");
  s.key("positions", &T::positions, Column{},
        "For token_classification: the key with a list of places in the row's text, each with a label.");
  s.key(
      "position_unit", &T::position_unit,
      Choice<PositionUnit>{{{PositionUnit::kTokens, "tokens"}, {PositionUnit::kCharacters, "characters"}}},
      "What data.positions count, from 0: tokens of the encoded row, special ones included, or characters of "
      "its text.");
  s.key("max_length", &T::max_length, integer(3, 1 << 20),
        "The most tokens of a row, special tokens included. Clamped to what the model has positions for.");
  s.key("truncation", &T::truncation,
        Choice<Truncation>{{{Truncation::kLongestFirst, "longest_first"},
                            {Truncation::kOnlyFirst, "only_first"},
                            {Truncation::kOnlySecond, "only_second"},
                            {Truncation::kNone, "none"}}},
        "Which text loses tokens where a row is too long; none refuses such rows.");
  s.key("stride", &T::stride, integer(0, 1 << 20),
        "A text that is longer than max_length becomes several rows, windows that share so many tokens of it "
        "with "
        "their neighbours; each learns with the text's label, and the text's answer is the mean of their "
        "logits. "
        "Unset: what is too long is cut off.");
  s.key("validation_fraction", &T::validation_fraction, fraction(),
        "The share of the training rows that is held out for validation, where validation names no file.");
  s.key("stratify", &T::stratify, Boolean{},
        "With validation_fraction, for texts of one class each: every class is held out in its own share.");
  s.key("max_rows", &T::max_rows, integer(1), "Train on the first rows only, so many. Unset: all.");
  s.key("shuffle", &T::shuffle, Boolean{}, "Draw a new order of rows for every epoch.");
  s.key("cache_dir", &T::cache_dir, CacheFolder{},
        "Folder that keeps encoded rows for the next run on the same files. auto: tokens/ in "
        "$FINETUNE_CACHE, else "
        "in finetune/ in $XDG_CACHE_HOME or ~/.cache, for files of a megabyte and more. none: keep nothing.");
  s.key("residency", &T::residency,
        Choice<Residency>{
            {{Residency::kAuto, "auto"}, {Residency::kDevice, "device"}, {Residency::kStream, "stream"}}},
        "Where the encoded training rows lie: on the device, or on the host, from where batches are streamed "
        "ahead of their use. auto: on the device where they fit beside what training was seen to need.");
  s.key("workers", &T::workers, CountOrAuto{64},
        "Threads that collect streamed rows. auto: as many as it takes for training not to wait for data.");
};

constexpr auto kTrainKeys = [](auto& s) {
  using T = TrainConfig;
  s.key("epochs", &T::epochs, above(0),
        "Passes over the training rows, in all. With max_steps, the first reached ends; with neither, 3.");
  s.key("max_steps", &T::max_steps, integer(1), "Updates, in all.");
  s.key("batch_size", &T::batch_size, integer(1, 1 << 24),
        "Rows of an update, over all devices and micro-batches.");
  s.key("micro_batch_size", &T::micro_batch_size, CountOrAuto{},
        "The most rows of one forward pass on one device. auto: what suits the device.");
  s.key(
      "precision", &T::precision,
      Choice<Precision>{{{Precision::kAuto, "auto"},
                         {Precision::kFp32, "fp32"},
                         {Precision::kTf32, "tf32"},
                         {Precision::kBf16, "bf16"},
                         {Precision::kFp16, "fp16"}}},
      "Number format of matrix products and of what flows between them; weights, sums and the loss are fp32 "
      "in each. auto: bf16 on a GPU that has it, else fp32. tf32: an NVIDIA GPU's products of fp32. fp16: "
      "with a scaled loss.");
  s.key("drop_last", &T::drop_last, Boolean{},
        "Leave out the last update of an epoch where it would be smaller.");
  s.key("cuda_graphs", &T::cuda_graphs, Boolean{},
        "On a GPU, record a step once for each shape of batch and launch it whole from then on: for steps so "
        "short that launching their hundreds of pieces takes longer than computing them.");
  s.key("eval_every", &T::eval_every, IntervalLength{}, "How often the validation data is measured.");
  s.key("log_every", &T::log_every, IntervalLength{},
        "How often loss and rates are read from the device and shown.");
  s.key("on_nonfinite", &T::on_nonfinite,
        Choice<OnNonfinite>{{{OnNonfinite::kSkip, "skip"}, {OnNonfinite::kAbort, "abort"}}},
        "What an update with infinite or undefined gradients does.");
  s.key(
      "early_stopping", &T::early_stopping, EarlyStoppingKind{},
      "Ends training when checkpoint.metric of the validation rows has not been better than its best by more "
      "than min_delta in patience evaluations, one after the other.");
};

constexpr auto kOptimizerKeys = [](auto& s) {
  using T = OptimizerConfig;
  s.key("type", &T::type,
        Choice<OptimizerType>{
            {{OptimizerType::kAdamW, "adamw"}, {OptimizerType::kAdam, "adam"}, {OptimizerType::kSgd, "sgd"}}},
        "The update rule.");
  s.key("learning_rate", &T::learning_rate, at_least(0),
        "The highest learning rate; the schedule scales it.");
  s.key("weight_decay", &T::weight_decay, at_least(0),
        "Decoupled for adamw, added to the gradient for adam and sgd. Unset: 0.01 for adamw, 0 for adam and "
        "sgd.");
  s.whole("betas", Betas{}, "Decay rates of Adam's first and second moment.");
  s.key("eps", &T::eps, at_least(0), "Added to the denominator of Adam's update.");
  s.key("amsgrad", &T::amsgrad, Boolean{},
        "Divide by the largest second moment so far (Reddi et al. 2018), for adamw and adam.");
  s.key("max_grad_norm", &T::max_grad_norm, at_least(0), "Gradients are scaled down to this norm. 0: never.");
  s.key("no_decay", &T::no_decay, list_of(Text{}),
        "Parameters whose names match one of these get no weight decay.");
  s.key("layerwise_lr_decay", &T::layerwise_lr_decay, above(0),
        "The learning rate falls by this factor from the head to the last layer, and from each layer to the "
        "one "
        "below it. 1: all learn at the same rate.");
  s.key(
      "groups", &T::groups, list_of(ParameterGroupKind{}),
      "Settings of their own for parameters: objects of patterns (regular expressions that are found in the "
      "names), learning_rate and weight_decay. The first that matches counts.");
};

constexpr auto kScheduleKeys = [](auto& s) {
  using T = ScheduleConfig;
  s.key("type", &T::type,
        Choice<ScheduleType>{{{ScheduleType::kLinear, "linear"},
                              {ScheduleType::kCosine, "cosine"},
                              {ScheduleType::kConstant, "constant"},
                              {ScheduleType::kPolynomial, "polynomial"},
                              {ScheduleType::kInverseSqrt, "inverse_sqrt"}}},
        "How the learning rate falls after the warm-up.");
  s.key("warmup", &T::warmup, WarmupLength{},
        "The learning rate rises from 0 over so many steps; below 1, over that fraction of all steps.");
};

constexpr auto kCheckpointKeys = [](auto& s) {
  using T = CheckpointConfig;
  s.key("save_every", &T::save_every, IntervalLength{},
        "How often the state is saved; it is saved at the end anyhow.");
  s.key("keep_last", &T::keep_last, integer(1), "How many of the newest checkpoints are kept.");
  s.key("keep_best", &T::keep_best, Boolean{}, "Keep the checkpoint with the best validation metric too.");
  s.key("metric", &T::metric, one_of(metric_names()),
        "The validation metric that makes a checkpoint the best.");
  s.key("mode", &T::mode, one_of({"auto", "min", "max"}),
        "Whether a small or a large metric is good. auto: min for loss, mse and mae, max for the others.");
};

constexpr auto kLoggingKeys = [](auto& s) {
  s.key("jsonl", &LoggingConfig::jsonl, Boolean{}, "Write metrics.jsonl, one object a line.");
  s.key("html", &LoggingConfig::html, Boolean{},
        "Write report.html, one page of curves, errors and tables, and write it anew while the run goes on.");
  s.key("tensorboard", &LoggingConfig::tensorboard, Boolean{},
        "Write the log's numbers to an event file for TensorBoard too.");
};

constexpr auto kRootKeys = [](auto& s) {
  using T = RunConfig;
  s.key("output_dir", &T::output_dir, Path{}, "The run's folder: checkpoints, logs, the trained model.");
  s.key("seed", &T::seed, Integer<uint64_t>{}, "Fixes row order, dropout and new weights.");
  s.key("device", &T::device, DeviceName{}, "auto takes a usable GPU, else the CPU, and says which.");
  s.key("deterministic", &T::deterministic, Boolean{},
        "Refuse operations whose result may differ between runs.");
  s.key("threads", &T::threads, integer(0, 1024), "CPU threads. 0: every core this process may use.");
  s.section("task", &T::task, "What is learned.", kTaskKeys);
  s.section("model", &T::model, "The encoder.", kModelKeys);
  s.section("data", &T::data, "Rows to train on and to measure with.", kDataKeys);
  s.section("train", &T::train, "Length and shape of the run.", kTrainKeys);
  s.section("optimizer", &T::optimizer, "The update rule.", kOptimizerKeys);
  s.section("schedule", &T::schedule, "The learning rate over time.", kScheduleKeys);
  s.section("checkpoint", &T::checkpoint, "What is saved, and what is kept.", kCheckpointKeys);
  s.section("logging", &T::logging, "What is written down.", kLoggingKeys);
};

void collect_names(const std::vector<Key>& keys, const std::string& prefix, std::vector<std::string>& names) {
  for (const Key& key : keys) {
    names.push_back(prefix + key.name);
    collect_names(key.children, prefix + key.name + ".", names);
  }
}

}  // namespace

const std::vector<Key>& key_table() {
  static const std::vector<Key> keys = [] {
    std::vector<Key> result;
    Section root(
        [](auto& config) -> auto& { return config; }, result);
    kRootKeys(root);
    return result;
  }();
  return keys;
}

const Key* find_key(const std::vector<Key>& keys, std::string_view name) {
  for (const Key& key : keys) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

const Key* find_dotted_key(std::string_view dotted) {
  const std::vector<Key>* keys = &key_table();
  while (true) {
    const size_t dot = dotted.find('.');
    const Key* key = find_key(*keys, dotted.substr(0, dot));
    if (key == nullptr || dot == std::string_view::npos) return key;
    keys = &key->children;
    dotted.remove_prefix(dot + 1);
  }
}

const std::vector<std::string>& dotted_key_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> result;
    collect_names(key_table(), "", result);
    return result;
  }();
  return names;
}

}  // namespace finetune::config
