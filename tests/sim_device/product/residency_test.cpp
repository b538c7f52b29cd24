/// Where training rows lie under `data.residency: auto`: streamed at first where they are not small, and on
/// the device for good once the first steps have shown that they fit.

#include <ATen/DeviceAccelerator.h>

#include "../device/support.h"
#include "tiny_run.h"

namespace finetune::sim {
namespace {

constexpr int64_t kMegabyte = 1 << 20;

class SimResidency : public SimTest {
 protected:
  void TearDown() override {
    SimTest::TearDown();
    at::accelerator::emptyCache();
  }

  struct Outcome {
    std::string weights;
    int64_t uploads = 0;  ///< from pinned memory
  };

  /// A run over 3,000 rows, an epoch of 375 updates.
  Outcome outcome_of(const char* residency, int steps, int64_t budget) {
    if (!std::filesystem::exists(folder_.path() / "train.csv")) {
      write_rows(folder_.path() / "train.csv", 3000, 1);
      write_rows(folder_.path() / "validation.csv", 30, 2);
    }
    Json config = tiny_config(folder_.path(), "sim:0");
    config.merge_patch({{"data", {{"validation", nullptr}, {"residency", residency}}},
                        {"train", {{"max_steps", steps}, {"log_every", 1000}, {"eval_every", 0}}},
                        {"checkpoint", {{"save_every", 0}}}});
    set_budget(0, budget);
    reset_counters();
    RunOptions options;
    options.quiet = true;
    options.overwrite = true;
    const Json summary = run(parse_run_config(config, folder_.path()), options);
    set_budget(0, 0);
    at::accelerator::emptyCache();
    return {summary.at("weights_sha256").get<std::string>(), counters().uploads_pinned};
  }

  TemporaryFolder folder_;
};

TEST_F(SimResidency, RowsThatFitBesideTheFirstStepsMoveToTheDevice) {
  const Outcome few = outcome_of("auto", 10, 3 * kMegabyte), many = outcome_of("auto", 40, 3 * kMegabyte);
  EXPECT_EQ(many.uploads, few.uploads) << "nothing is uploaded once the rows are there";
  const Outcome streamed_few = outcome_of("stream", 10, 0), streamed = outcome_of("stream", 40, 0);
  EXPECT_GT(streamed.uploads, streamed_few.uploads + 30);
  const Outcome resident = outcome_of("device", 40, 0);
  EXPECT_GT(many.uploads, resident.uploads) << "they must have been streamed at first";
  EXPECT_EQ(many.weights, streamed.weights);
  EXPECT_EQ(many.weights, resident.weights);
}

}  // namespace
}  // namespace finetune::sim
