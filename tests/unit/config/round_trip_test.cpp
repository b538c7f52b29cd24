#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <random>
#include <set>

#include "config/config_files.h"

namespace finetune {
namespace {

/// Draws valid configs: every key from the range of values it takes.
class ConfigGenerator {
 public:
  explicit ConfigGenerator(uint64_t seed) : random_(seed) {}

  RunConfig draw() {
    RunConfig c;
    c.output_dir = path();
    c.seed = random_();
    c.device = pick<std::string>({"auto", "cpu", "cuda", "cuda:0", "cuda:17", "sim:1"});
    c.deterministic = coin();
    c.threads = integer(0, 1024);
    c.task.labels =
        coin() ? std::vector<std::string>{} : std::vector<std::string>{"a " + word(), "b" + word(), "c"};
    c.task.ignore_index = integer(-1000, 1000);
    c.task.label_smoothing = fraction();
    c.task.focal_gamma = fraction() * 4;
    draw_weights(c.task);
    c.model.path = path();
    c.model.init = pick({WeightInit::kPretrained, WeightInit::kRandom});
    for (int64_t n = integer(0, 2); n > 0; --n)
      c.model.rename.push_back({"^[.]" + std::to_string(n), word()});
    if (coin()) c.model.dropout = fraction();
    if (coin()) c.model.attention_dropout = fraction();
    if (coin()) c.model.classifier_dropout = fraction();
    c.model.activation_checkpointing = coin();
    for (int64_t n = integer(0, 2); n > 0; --n) c.model.freeze.push_back("^[.]$" + std::to_string(n));
    if (coin()) c.model.unfreeze = UnfreezeConfig{.every = Interval{.count = double(integer(1, 50))}};
    if (coin()) {
      c.model.lora = LoraConfig{.rank = integer(1, 64),
                                .alpha = 1 + fraction(),
                                .dropout = fraction(),
                                .targets = {"^[.]$" + std::to_string(integer(0, 9))}};
    }
    if (coin()) c.model.ema = EmaConfig{.decay = fraction()};
    draw_data(c.data);
    draw_train(c.train);
    draw_optimizer(c.optimizer);
    c.schedule.type = pick({ScheduleType::kLinear, ScheduleType::kCosine, ScheduleType::kConstant,
                            ScheduleType::kPolynomial, ScheduleType::kInverseSqrt});
    c.schedule.warmup = coin() || c.train.max_steps ? fraction() : static_cast<double>(integer(1, 100000));
    c.checkpoint.save_every = interval();
    c.checkpoint.keep_last = integer(1, 100);
    c.checkpoint.keep_best = coin();
    c.checkpoint.metric = pick<std::string>({"loss", "accuracy", "macro_f1", "matthews_correlation"});
    c.checkpoint.mode = pick<std::string>({"auto", "min", "max"});
    c.logging.jsonl = coin();
    c.logging.html = coin();
    c.logging.tensorboard = coin();
    const bool evaluates = !c.data.validation.empty() || c.data.validation_fraction > 0;
    if (evaluates && !c.train.eval_every.never() && coin()) {
      c.train.early_stopping = EarlyStopping{.patience = integer(1, 100), .min_delta = fraction()};
    }
    draw_task(c);
    return c;
  }

 private:
  /// Another task than single classes of rows, or another loss: what it needs, and nothing that it excludes.
  void draw_task(RunConfig& c) {
    const int64_t kind = integer(0, 8);
    if (kind < 5) c.task.label_smoothing = 0;
    if (kind == 0) c.task.loss = LossType::kFocal;
    if (kind == 1) {
      c.task.type = TaskType::kMultiLabelClassification;
      c.task.class_weights = {};
      c.task.pos_weight.balanced = true;
      c.task.threshold = 0.25;
      c.checkpoint.metric = "loss";
      c.data.format = DataFormat::kJsonl;
      c.data.delimiter.reset();
    }
    if (kind >= 2 && kind < 5) {
      c.task.type = TaskType::kTokenClassification;
      auto& column = kind == 2 ? c.data.tokens : kind == 3 ? c.data.fields : c.data.positions;
      column = ColumnName{"i" + word(), {}};
      c.data.format = DataFormat::kJsonl;
      c.data.delimiter.reset();
      c.data.text_pair.reset();
      c.data.truncation = Truncation::kLongestFirst;
    }
    if (kind == 5) {
      c.task = TaskConfig();
      c.task.type = TaskType::kMaskedLm;
      c.task.ignore_index = -7;
      c.task.mask_fraction = 0.25;
      c.checkpoint.metric = "perplexity";
      if (!c.data.delimiter && !c.data.text_pair) c.data.format = DataFormat::kText;
    }
    const bool cuts = c.data.truncation != Truncation::kNone;
    const bool whole_pairs = c.data.text_pair && c.data.truncation == Truncation::kLongestFirst;
    if ((kind < 2 || kind > 4) && cuts && !whole_pairs && coin()) c.data.stride = integer(0, 2);
    if ((kind < 2 || kind > 5) && coin()) c.model.pooling = pick({Pooling::kCls, Pooling::kMean});
    c.data.label_shape = label_shape(c.task.type);
  }

  void draw_weights(TaskConfig& task) {
    switch (integer(0, 3)) {
      case 0:
        task.class_weights.balanced = true;
        break;
      case 1:
        task.class_weights.values.assign(task.labels.empty() ? 2 : task.labels.size(), fraction());
        break;
      case 2:
        task.class_weights.by_label = {{task.labels.empty() ? word() : task.labels[0], fraction()}};
        break;
      default:
        break;
    }
  }

  void draw_data(DataConfig& d) {
    d.label_separator = "," + word();
    d.position_unit = pick({PositionUnit::kTokens, PositionUnit::kCharacters});
    for (auto* files : {&d.train, &d.validation, &d.test}) {
      for (int64_t n = integer(files == &d.train ? 1 : 0, 3); n > 0; --n) files->push_back(path());
    }
    d.format = pick(
        {DataFormat::kAuto, DataFormat::kCsv, DataFormat::kTsv, DataFormat::kJsonl, DataFormat::kFolder});
    const bool delimited = d.format != DataFormat::kJsonl && d.format != DataFormat::kFolder;
    d.encoding =
        pick({TextEncoding::kUtf8, TextEncoding::kUtf8Replace, TextEncoding::kLatin1, TextEncoding::kUtf16});
    d.header = pick({HeaderMode::kAuto, HeaderMode::kPresent, HeaderMode::kAbsent});
    const bool named = d.header != HeaderMode::kAbsent && coin();
    if (delimited && coin()) d.delimiter = pick({',', ';', '\t', '|', '\x01', ' ', '\\', '$'});
    d.text = named ? ColumnName{"t" + word(), {}} : ColumnName{"", 0};
    d.label = named ? ColumnName{"l" + word(), {}} : ColumnName{"", 1};
    const bool pair = d.format != DataFormat::kFolder && coin();
    if (pair) d.text_pair = named ? ColumnName{"p" + word(), {}} : ColumnName{"", 4294967296};
    d.max_length = integer(3, 2048);
    d.truncation = pick({Truncation::kLongestFirst, Truncation::kOnlyFirst, Truncation::kNone});
    if (pair && coin()) d.truncation = Truncation::kOnlySecond;
    d.validation_fraction = d.validation.empty() ? fraction() : 0;
    d.stratify = coin();
    if (coin()) d.max_rows = integer(1, 1000000);
    d.shuffle = coin();
    d.cache_dir = coin() ? path() : pick<std::filesystem::path>({"auto", "none"});
    d.residency = pick({Residency::kAuto, Residency::kDevice, Residency::kStream});
    if (coin()) d.workers = {false, integer(1, 64)};
  }

  void draw_train(TrainConfig& t) {
    if (coin()) t.max_steps = integer(1, 1000000);
    if (coin() || !t.max_steps) t.epochs = coin() ? static_cast<double>(integer(1, 20)) : fraction() + 1e-9;
    t.batch_size = integer(1, 4096);
    if (coin()) t.micro_batch_size = {false, integer(1, 4096)};
    t.precision = pick({Precision::kAuto, Precision::kFp32});
    t.drop_last = coin();
    t.cuda_graphs = coin();
    t.eval_every = interval();
    t.log_every = interval();
    t.on_nonfinite = pick({OnNonfinite::kSkip, OnNonfinite::kAbort});
  }

  void draw_optimizer(OptimizerConfig& o) {
    o.type = pick({OptimizerType::kAdamW, OptimizerType::kAdam, OptimizerType::kSgd});
    o.learning_rate = fraction() * 1e-3;
    o.weight_decay = fraction();
    o.beta1 = fraction();
    o.beta2 = fraction();
    o.eps = fraction() * 1e-8;
    o.amsgrad = o.type != OptimizerType::kSgd && coin();
    o.max_grad_norm = coin() ? 0 : fraction() * 10;
    o.layerwise_lr_decay = fraction() + 1e-9;
    for (int64_t n = integer(0, 2); n > 0; --n) {
      ParameterGroup group{
          .patterns = {"^" + std::to_string(n), "[.]$"}, .learning_rate = {}, .weight_decay = {}};
      if (coin() && o.learning_rate > 0) group.learning_rate = fraction();
      if (coin()) group.weight_decay = fraction();
      o.groups.push_back(group);
    }
    o.no_decay.clear();
    for (int64_t n = integer(0, 3); n > 0; --n) o.no_decay.push_back("x" + word());
  }

  Interval interval() {
    switch (integer(0, 3)) {
      case 0:
        return {};
      case 1:
        return {static_cast<double>(integer(1, 100000)), Interval::Unit::kSteps};
      case 2:
        return {static_cast<double>(integer(1, 20)), Interval::Unit::kEpochs};
      default:
        return {fraction() * 1e-6 + 1e-9, Interval::Unit::kEpochs};
    }
  }

  /// Words with what JSON, JSON pointers, paths and variables give a meaning to.
  std::string word() {
    std::string text;
    for (int64_t n = integer(0, 8); n > 0; --n) {
      text += pick<std::string>(
          {"a", "Z", "9", " ", ".", "~", "$", "{", "}", "${", "$${", "\"", "\\", "\xc3\xa9", "\n", "/*"});
    }
    return text;
  }

  std::filesystem::path path() {
    std::string text = "/" + std::to_string(integer(0, 99));
    for (const char c : word()) {
      if (c != '/') text += c;
    }
    return text;
  }

  bool coin() { return random_() % 2 == 0; }
  int64_t integer(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
  }
  double fraction() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  template <class T>
  T pick(std::initializer_list<T> values) {
    return *(values.begin() + random_() % values.size());
  }

  std::mt19937_64 random_;
};

class RoundTrip : public ConfigFileTest {};

TEST_F(RoundTrip, PrintedConfigsReadBackEqual) {
  ConfigGenerator generator(7);
  for (int round = 0; round < 500; ++round) {
    const RunConfig config = generator.draw();
    const Json json = to_json(config);
    ASSERT_EQ(parse_run_config(json, folder_), config) << json.dump(2);
  }
}

TEST_F(RoundTrip, SavedConfigsLoadEqualFromAnotherFolder) {
  ConfigGenerator generator(8);
  for (int round = 0; round < 100; ++round) {
    const RunConfig config = generator.draw();
    const std::string text = to_json(config).dump(2);
    write("elsewhere/config.json", text);
    ASSERT_EQ(load_run_config("elsewhere/config.json", {}), config) << text;
  }
}

// So the tests above would notice a key that is not printed, or not read.
TEST_F(RoundTrip, DrawsReachEveryKey) {
  ConfigGenerator generator(9);
  const Json defaults = to_json(RunConfig{});
  std::set<std::string> constant;
  for (const auto& [name, value] : defaults.items()) {
    if (!value.is_object()) {
      constant.insert("/" + name);
    } else {
      for (const auto& [key, unused] : value.items()) constant.insert("/" + name + "/" + key);
    }
  }
  const size_t num_keys = constant.size();
  const Json reference = to_json(generator.draw());
  for (int round = 0; round < 50; ++round) {
    const Json other = to_json(generator.draw());
    std::erase_if(constant, [&](const std::string& pointer) {
      const Json::json_pointer at(pointer);
      return reference.at(at) != other.at(at);
    });
  }
  EXPECT_GT(num_keys, 40u);
  EXPECT_THAT(constant, testing::IsEmpty());
}

TEST_F(RoundTrip, UnsetKeysHaveTheirDefaults) {
  RunConfig expected;
  expected.output_dir = folder_ / "runs/finetune";
  expected.model.path = folder_ / "encoder";
  expected.data.train = {folder_ / "train.csv"};
  expected.train.epochs = 3;
  EXPECT_EQ(load(with("")), expected);
}

TEST_F(RoundTrip, WeightDecayGoesByTheOptimizer) {
  const auto decay = [&](const std::string& optimizer) {
    return load(with(", \"optimizer\": " + optimizer)).optimizer.weight_decay;
  };
  EXPECT_EQ(decay(R"({"type": "adamw"})"), 0.01);
  EXPECT_EQ(decay(R"({"type": "adam"})"), 0);
  EXPECT_EQ(decay(R"({"type": "sgd"})"), 0);
  EXPECT_EQ(decay(R"({"type": "sgd", "weight_decay": null})"), 0);
  EXPECT_EQ(decay(R"({"type": "sgd", "weight_decay": 0.5})"), 0.5);
}

TEST_F(RoundTrip, EpochsAreThreeUnlessTheLengthIsGiven) {
  EXPECT_EQ(load(with("")).train.epochs, 3);
  EXPECT_EQ(load(with(R"(, "train": {"max_steps": 10})")).train.epochs, std::nullopt);
  EXPECT_EQ(load(with(R"(, "train": {"max_steps": 10, "epochs": 0.5})")).train.epochs, 0.5);
}

TEST_F(RoundTrip, IntervalsHaveSeveralSpellings) {
  const auto interval = [&](const std::string& value) {
    return load(with(", \"train\": {\"eval_every\": " + value + "}")).train.eval_every;
  };
  using Unit = Interval::Unit;
  EXPECT_EQ(interval("\"1 epoch\""), (Interval{1, Unit::kEpochs}));
  EXPECT_EQ(interval("\"2 epochs\""), (Interval{2, Unit::kEpochs}));
  EXPECT_EQ(interval("\"0.5 epoch\""), (Interval{0.5, Unit::kEpochs}));
  EXPECT_EQ(interval("\"200 steps\""), (Interval{200, Unit::kSteps}));
  EXPECT_EQ(interval("\"1 step\""), (Interval{1, Unit::kSteps}));
  EXPECT_EQ(interval("200"), (Interval{200, Unit::kSteps}));
  for (const char* never : {"0", "\"never\"", "\"0 steps\"", "\"0 epochs\""}) {
    EXPECT_TRUE(interval(never).never()) << never;
    EXPECT_EQ(interval(never), Interval{}) << never;
  }
  EXPECT_FALSE(interval("null").never()) << "null is the default";
}

TEST_F(RoundTrip, IntegersMayBeWrittenAsFloats) {
  EXPECT_EQ(load(with(R"(, "train": {"batch_size": 16.0, "max_steps": 1e3})")).train.max_steps, 1000);
  EXPECT_EQ(load(with(R"(, "seed": 18446744073709551615)")).seed, 18446744073709551615u);
}

TEST_F(RoundTrip, ParseNamesItsProblems) {
  try {
    parse_run_config({{"seed", -1}, {"model", {{"path", "/m"}}}, {"data", {{"train", "/a.csv"}}}}, folder_);
    FAIL() << "a negative seed was taken";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(), "config: /seed: found -1; expected an integer of at least 0");
  }
  EXPECT_THROW(parse_run_config(Json::array(), folder_), ConfigError);
}

}  // namespace
}  // namespace finetune
