/// Memory that runs out in training: the micro-batch is halved and no step is lost, or the run ends with exit
/// code 5 and says what it needs.

#include <ATen/DeviceAccelerator.h>

#include "../device/support.h"
#include "finetune/core/error.h"
#include "tiny_run.h"

namespace finetune::sim {
namespace {

constexpr int64_t kSteps = 6;

/// Whole updates at once as long as they fit; nothing but training.
Json training_only(const std::filesystem::path& folder) {
  Json config = tiny_config(folder, "sim:0");
  config.merge_patch(
      {{"data", {{"validation", nullptr}}},
       {"train",
        {{"batch_size", 16}, {"micro_batch_size", "auto"}, {"max_steps", kSteps}, {"eval_every", 0}}},
       {"checkpoint", {{"save_every", 0}}}});
  return config;
}

struct Outcome {
  Json summary;       ///< of a run that ended well
  std::string error;  ///< of one that did not
  ExitCode code = ExitCode::kOk;
  std::vector<Json> steps, halved;  ///< events of its log
};

Outcome outcome_of(const Json& config, const std::filesystem::path& folder) {
  Outcome outcome;
  RunOptions options;
  options.quiet = true;
  // A run that ends before its first step leaves an earlier one's log where it is.
  std::filesystem::remove_all(folder / "run");
  try {
    outcome.summary = run(parse_run_config(config, folder), options);
  } catch (const Error& error) {
    outcome.error = error.what();
    outcome.code = error.exit_code();
  } catch (const c10::OutOfMemoryError& error) {
    outcome.error = error.what_without_backtrace();  // before the first step
    outcome.code = ExitCode::kDevice;
  }
  outcome.steps = events_of(folder / "run", "train");
  outcome.halved = events_of(folder / "run", "micro_batch");
  return outcome;
}

class SimOutOfMemory : public SimTest {
 protected:
  void TearDown() override {
    SimTest::TearDown();
    at::accelerator::emptyCache();
  }
  Outcome run_with(const Json& changes) {
    Json config = training_only(folder_.path());
    config.merge_patch(changes);
    return outcome_of(config, folder_.path());
  }
  Outcome run() { return run_with(Json::object()); }

  /// Bytes allocated at most, above what there was before.
  int64_t peak_of(const Json& changes) {
    at::accelerator::emptyCache();
    at::accelerator::resetPeakStats(0);
    const int64_t before = memory(0).allocated;
    run_with(changes);
    return memory(0).peak_allocated - before;
  }

  TemporaryFolder folder_;
};

void expect_same_losses(const Outcome& outcome, const Outcome& undisturbed) {
  const auto losses = values_of(outcome.steps, "loss"), expected = values_of(undisturbed.steps, "loss");
  ASSERT_EQ(losses.size(), expected.size());
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 1e-5 * expected[i]) << i;
}

TEST_F(SimOutOfMemory, AtTwentyPlacesHalvesTheMicroBatchOrEndsWithAPlan) {
  reset_counters();
  const Outcome undisturbed = run();
  const int64_t allocations = counters().allocations;
  ASSERT_EQ(undisturbed.steps.size(), static_cast<size_t>(kSteps));
  int halved = 0;
  for (int place = 1; place <= 20; ++place) {
    SCOPED_TRACE("place " + std::to_string(place));
    fail_on(Operation::kAllocation, allocations * place / 22);
    const Outcome outcome = run();
    if (outcome.code == ExitCode::kOk) {
      // None where it was only the measurement of the device's rate that had to do without.
      ASSERT_LE(outcome.halved.size(), 1u);
      expect_same_losses(outcome, undisturbed);
      halved += static_cast<int>(outcome.halved.size());
    } else {
      EXPECT_EQ(outcome.code, ExitCode::kDevice) << outcome.error;
      EXPECT_SAYS(outcome.error, "out of memory, as was asked for");
      if (!outcome.steps.empty()) {
        EXPECT_SAYS(outcome.error, "a step needs about");
      }
    }
    EXPECT_EQ(reports(), "");
  }
  EXPECT_GE(halved, 12);
}

TEST_F(SimOutOfMemory, ATightBudgetGivesTheSameTraining) {
  const Outcome undisturbed = run();
  const int64_t whole = peak_of(Json::object());
  const int64_t quarter = peak_of({{"train", {{"micro_batch_size", 4}}}});
  ASSERT_LT(quarter, whole);
  at::accelerator::emptyCache();
  set_budget(0, memory(0).reserved + quarter + (whole - quarter) / 4);
  const Outcome outcome = run();
  ASSERT_EQ(outcome.error, "");
  expect_same_losses(outcome, undisturbed);
  EXPECT_EQ(outcome.summary.at("steps"), kSteps);
}

TEST_F(SimOutOfMemory, OneRowThatDoesNotFitEndsTheRunWithAPlan) {
  const int64_t one_row = peak_of({{"train", {{"micro_batch_size", 1}}}});
  at::accelerator::emptyCache();
  set_budget(0, memory(0).reserved + one_row * 9 / 10);
  const Outcome outcome = run();
  EXPECT_EQ(outcome.code, ExitCode::kDevice);
  for (const char* part : {"sim:0 out of memory", "a step needs about", "weights", "moments", "activations",
                           "free", "lower data.max_length"}) {
    EXPECT_SAYS(outcome.error, part);
  }
}

TEST_F(SimOutOfMemory, AMicroBatchThatTheConfigFixesIsKept) {
  const Json fixed{{"train", {{"micro_batch_size", 16}}}};
  reset_counters();
  run_with(fixed);
  fail_on(Operation::kAllocation, counters().allocations / 2);
  const Outcome outcome = run_with(fixed);
  EXPECT_EQ(outcome.code, ExitCode::kDevice);
  EXPECT_SAYS(outcome.error, "lower train.micro_batch_size or set it to \"auto\"");
  EXPECT_TRUE(outcome.halved.empty());
}

TEST_F(SimOutOfMemory, TheChoiceIsKeptByAResume) {
  reset_counters();
  run();
  fail_on(Operation::kAllocation, counters().allocations / 2);
  const Outcome halved = run();
  ASSERT_EQ(halved.halved.size(), 1u);
  Json config = training_only(folder_.path());
  config["train"]["max_steps"] = kSteps + 2;
  RunOptions options;
  options.quiet = true;
  options.resume = "auto";
  ::finetune::run(parse_run_config(config, folder_.path()), options);
  const auto resumes = events_of(folder_.path() / "run", "resume");
  ASSERT_EQ(resumes.size(), 1u);
  EXPECT_EQ(resumes[0].at("micro_batch_tokens"), halved.halved[0].at("micro_batch_tokens"));
}

TEST_F(SimOutOfMemory, RowsThatAreToLieOnTheDeviceAndDoNotFitAreNamed) {
  at::accelerator::emptyCache();
  set_budget(0, memory(0).reserved + 1024);
  const Outcome outcome = run_with({{"data", {{"residency", "device"}}}});
  EXPECT_EQ(outcome.code, ExitCode::kDevice);
  EXPECT_SAYS(outcome.error, "the rows of 'train' do not fit on sim:0");
  EXPECT_SAYS(outcome.error, "set data.residency to \"stream\"");
}

}  // namespace
}  // namespace finetune::sim
