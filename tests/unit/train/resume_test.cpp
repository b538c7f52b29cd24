#include "train/resume.h"

#include <gmock/gmock.h>

#include "finetune/core/error.h"

namespace finetune {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// tests/cli/resume_test.py resumes whole runs.

RunIdentity identity() {
  return {.num_steps = 100,
          .batch_size = 32,
          .task = "sequence_classification",
          .precision = "fp32",
          .data = "0123",
          .labels = {"a", "b"},
          .environment = {{"threads", 2}, {"isa", "AVX2"}, {"device", "cpu"}},
          .config = {{"seed", 42}}};
}

void expect_refused(const RunIdentity& now, const std::string& change, const std::string& words) {
  const Json saved = to_json(identity());
  EXPECT_THAT([&] { check_resume(saved, now, {}); },
              ThrowsMessage<ConfigError>(
                  AllOf(HasSubstr(words), HasSubstr("--allow-change " + change), HasSubstr("--overwrite"))));
  RunOptions options;
  options.allow_change = {change};
  EXPECT_NO_THROW(check_resume(saved, now, options));
}

TEST(CheckResume, TakesTheSameRun) { EXPECT_NO_THROW(check_resume(to_json(identity()), identity(), {})); }

TEST(CheckResume, RefusesWhatWouldBeAnotherRun) {
  RunIdentity now = identity();
  now.batch_size = 16;
  expect_refused(now, "batch_size", "batch_size 32, now it is 16");
  now = identity();
  now.data = "4567";
  expect_refused(now, "data", "training data");
  now = identity();
  now.task = "regression";
  expect_refused(now, "task", "task");
  now = identity();
  now.labels = {"b", "a"};
  expect_refused(now, "labels", "labels");
}

TEST(CheckResume, OneAllowedChangeAllowsNoOther) {
  RunIdentity now = identity();
  now.batch_size = 16;
  now.data = "4567";
  RunOptions options;
  options.allow_change = {"data"};
  EXPECT_THROW(check_resume(to_json(identity()), now, options), ConfigError);
}

TEST(CheckResume, TakesChangesThatAreOnlySaid) {
  RunIdentity now = identity();
  now.num_steps = 200;
  now.environment["threads"] = 4;
  now.config["seed"] = 43;
  now.config["new"] = 1;
  EXPECT_NO_THROW(check_resume(to_json(identity()), now, {}));
}

}  // namespace
}  // namespace finetune
