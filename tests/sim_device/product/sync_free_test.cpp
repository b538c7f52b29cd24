/// The product's own training on sim:0: the CPU's numbers, and nothing between two log points that waits for
/// the device.
///
/// The strict mode is the product's: `Trainer::update` forbids host reads through the plugin's services, so
/// one would throw, and so would any other wait for the device.

#include "../device/support.h"
#include "../recording.h"
#include "watched_run.h"

namespace finetune::sim {
namespace {

struct Variant {
  const char* name;
  Json changes;  ///< merged into the tiny config
};

void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name; }

std::vector<Variant> variants() {
  const Json words{{"task", {{"type", "token_classification"}}},
                   {"data", {{"train", "train.conll"}, {"validation", "validation.conll"}}}};
  Json streamed_words = words;
  streamed_words["data"]["residency"] = "stream";
  return {{"micro_batches_and_clipping", Json::object()},
          {"whole_batches_without_clipping",
           {{"train", {{"micro_batch_size", 8}}}, {"optimizer", {{"max_grad_norm", 0}}}}},
          {"adam", {{"optimizer", {{"type", "adam"}}}}},
          {"sgd", {{"optimizer", {{"type", "sgd"}, {"learning_rate", 0.05}}}}},
          {"label_smoothing", {{"task", {{"label_smoothing", 0.1}}}}},
          {"bf16", {{"train", {{"precision", "bf16"}}}}},
          {"fp16", {{"train", {{"precision", "fp16"}}}}},
          {"sgd_bf16",
           {{"train", {{"precision", "bf16"}}}, {"optimizer", {{"type", "sgd"}, {"learning_rate", 0.05}}}}},
          {"micro_batches_by_memory", {{"train", {{"micro_batch_size", "auto"}}}}},
          {"activation_checkpointing", {{"model", {{"activation_checkpointing", true}}}}},
          {"words", words},
          {"streamed_words", streamed_words},
          {"fields",
           {{"task", {{"type", "token_classification"}}},
            {"data",
             {{"train", "train.jsonl"},
              {"validation", "validation.jsonl"},
              {"fields", "fields"},
              {"label", "labels"}}}}},
          {"masked_lm", {{"task", {{"type", "masked_lm"}}}}},
          {"windows", {{"data", {{"max_length", 6}, {"stride", 1}}}}},
          {"average_of_weights", {{"model", {{"ema", {{"decay", 0.9}}}}}}},
          {"gradual_unfreezing", {{"model", {{"unfreeze", {{"every", 10}}}}}}},
          {"adapters", {{"model", {{"lora", {{"rank", 2}, {"dropout", 0.1}}}}}}},
          {"mean_pooling", {{"model", {{"pooling", "mean"}}}}},
          {"weighted_focal", {{"task", {{"loss", "focal"}, {"class_weights", "balanced"}}}}},
          {"streamed", {{"data", {{"residency", "stream"}}}}},
          {"streamed_whole_batches",
           {{"data", {{"residency", "stream"}}}, {"train", {{"micro_batch_size", 8}}}}}};
}

/// Tasks whose labels are numbers.
std::vector<Variant> variants_of_numbers() {
  return {{"several_labels",
           {{"task", {{"type", "multi_label_classification"}, {"pos_weight", "balanced"}}},
            {"data", {{"label_separator", "|"}}}}},
          {"numbers",
           {{"task", {{"type", "regression"}}},
            {"data", {{"label", "value"}}},
            {"model", {{"init", "random"}}}}}};
}

class SyncFree : public SimTest, public ::testing::WithParamInterface<Variant> {};

TEST_P(SyncFree, FiftyStepsEqualTheCpusBitByBit) {
  const auto cpu = run_on("cpu", GetParam().changes), sim = run_on("sim:0", GetParam().changes);
  ASSERT_EQ(sim->log.size(), 50u);
  for (const char* key : {"loss", "grad_norm", "learning_rate"}) {
    EXPECT_EQ(values_of(sim->log, key), values_of(cpu->log, key)) << key;
  }
  EXPECT_EQ(sim->summary.at("weights_sha256"), cpu->summary.at("weights_sha256"));
  EXPECT_EQ(sim->summary.at("metrics"), cpu->summary.at("metrics"));
  EXPECT_EQ(sim->summary.at("device"), "sim:0");
  EXPECT_EQ(sim->counters.strict_sections, 50);
  EXPECT_EQ(sim->counters.foreign_operands, 0);
  EXPECT_EQ(sim->counters.cpu_scalars, 0);
  EXPECT_EQ(sim->counters.copied_results, 0);
  EXPECT_EQ(reports(), "");
  EXPECT_EQ(cpu->counters.kernels, 0) << "the CPU's run must not touch the device";
}

std::string variant_name(const ::testing::TestParamInfo<Variant>& variant) { return variant.param.name; }

INSTANTIATE_TEST_SUITE_P(All, SyncFree, ::testing::ValuesIn(variants()), variant_name);
INSTANTIATE_TEST_SUITE_P(Numbers, SyncFree, ::testing::ValuesIn(variants_of_numbers()), variant_name);

TEST_F(SimTest, LayersThatAreComputedAnewGiveTheSameBits) {
  const auto kept = run_on("cpu", Json::object());
  const auto anew = run_on("cpu", {{"model", {{"activation_checkpointing", true}}}});
  EXPECT_EQ(anew->summary.at("weights_sha256"), kept->summary.at("weights_sha256"));
}

/// Variants whose steps are recorded, and how often one is repeated instead of being launched in pieces.
class SyncFreeRecorded : public SimTest, public ::testing::WithParamInterface<Variant> {};

TEST_P(SyncFreeRecorded, RepeatedStepsGiveTheNumbersOfLaunchedOnes) {
  Json recorded = GetParam().changes;
  recorded["train"]["cuda_graphs"] = true;
  take_recording_counts();
  const auto cpu = run_on("cpu", GetParam().changes), sim = run_on("sim:0", recorded);
  const RecordingCounts counts = take_recording_counts();
  EXPECT_GE(counts.made, 2) << "a shape of micro-batch and the optimizer";
  EXPECT_GT(counts.replayed, 70) << "of 50 updates, each of one micro-batch at least and the optimizer";
  const auto expected = values_of(cpu->log, "loss"), losses = values_of(sim->log, "loss");
  ASSERT_EQ(losses.size(), expected.size());
  const double tolerance = GetParam().changes.dump().find("16\"") == std::string::npos ? 1e-5 : 2e-2;
  for (size_t i = 0; i < losses.size(); ++i)
    EXPECT_NEAR(losses[i], expected[i], tolerance) << "step " << i + 1;
  EXPECT_EQ(values_of(sim->log, "learning_rate"), values_of(cpu->log, "learning_rate"));
  EXPECT_EQ(sim->counters.strict_sections, 50);
  EXPECT_EQ(reports(), "");
}

INSTANTIATE_TEST_SUITE_P(All, SyncFreeRecorded, ::testing::ValuesIn(variants()), variant_name);

/// What a run counts that neither evaluates nor saves before its end. An epoch has nine steps: its end is a
/// log point of its own.
Counters counters_of_training(int log_every, int max_steps, const char* residency) {
  const Json changes{{"train", {{"log_every", log_every}, {"max_steps", max_steps}, {"eval_every", 0}}},
                     {"data", {{"validation", nullptr}, {"residency", residency}}},
                     {"checkpoint", {{"save_every", 0}}}};
  return run_on("sim:0", changes)->counters;
}

class SyncFreeRun : public SimTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(SyncFreeRun, TwoHundredStepsWaitForTheDeviceNoMoreThanTen) {
  const Counters few = counters_of_training(1000, 10, GetParam());
  const Counters many = counters_of_training(1000, 200, GetParam());
  EXPECT_EQ(many.strict_sections, 200);
  EXPECT_EQ(many.host_reads, few.host_reads);
  EXPECT_EQ(many.reads, few.reads);
  EXPECT_EQ(many.uploads_pageable, few.uploads_pageable);
  EXPECT_EQ(reports(), "");
}

TEST_P(SyncFreeRun, LogPointsAreReadInTheBackground) {
  const Counters few = counters_of_training(1000, 18, GetParam());
  const Counters more = counters_of_training(6, 18, GetParam());
  const Counters all = counters_of_training(1, 18, GetParam());
  EXPECT_EQ(more.host_reads, few.host_reads);
  EXPECT_EQ(all.host_reads, few.host_reads);
  EXPECT_EQ(more.async_reads, few.async_reads + 2);  // at 6 and 12, besides the ends of epochs at 9 and 18
  EXPECT_EQ(all.async_reads, few.async_reads + 16);
}

INSTANTIATE_TEST_SUITE_P(Residency, SyncFreeRun, ::testing::Values("device", "stream"));

}  // namespace
}  // namespace finetune::sim
