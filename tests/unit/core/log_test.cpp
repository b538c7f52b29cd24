#include "finetune/core/log.h"

#include <gtest/gtest.h>

#include <string>

#include "finetune/core/error.h"

namespace finetune {
namespace {

/// What stderr and stdout get when something is logged at each level.
struct Said {
  std::string out;
  std::string err;
};

Said say(Verbosity verbosity) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  configure_logging(verbosity);
  spdlog::debug("a detail");
  spdlog::info("a step");
  spdlog::warn("a doubt");
  spdlog::error("a fault");
  spdlog::default_logger()->flush();
  Said said;
  said.err = testing::internal::GetCapturedStderr();
  said.out = testing::internal::GetCapturedStdout();
  return said;
}

bool holds(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

TEST(Log, NormalLeavesOutDetails) {
  const std::string err = say(Verbosity::kNormal).err;
  EXPECT_EQ(err, "info: a step\nwarning: a doubt\nerror: a fault\n");
}

TEST(Log, QuietSaysFaultsOnly) { EXPECT_EQ(say(Verbosity::kQuiet).err, "error: a fault\n"); }

TEST(Log, VerboseSaysEverything) {
  const std::string err = say(Verbosity::kVerbose).err;
  EXPECT_TRUE(holds(err, "debug: a detail")) << err;
  EXPECT_TRUE(holds(err, "error: a fault")) << err;
}

TEST(Log, StdoutIsForResultsAndNoFileGetsColours) {
  const Said said = say(Verbosity::kVerbose);
  EXPECT_EQ(said.out, "");
  EXPECT_FALSE(holds(said.err, "\x1b")) << said.err;
}

TEST(Errors, CarryTheExitCodeOfTheirKind) {
  EXPECT_EQ(static_cast<int>(ConfigError("").exit_code()), 2);
  EXPECT_EQ(static_cast<int>(DataError("").exit_code()), 3);
  EXPECT_EQ(static_cast<int>(CheckpointError("").exit_code()), 4);
  EXPECT_EQ(static_cast<int>(DeviceError("").exit_code()), 5);
  EXPECT_EQ(static_cast<int>(DivergenceError("").exit_code()), 6);
  EXPECT_EQ(std::string(DataError("a.csv:3: bad").what()), "a.csv:3: bad");
}

}  // namespace
}  // namespace finetune
