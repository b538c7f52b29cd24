/// Faults of memory, planted in a training step, and failures on request.

#include <ATen/DeviceAccelerator.h>

#include "died_with.h"
#include "training_step.h"

namespace finetune::sim {
namespace {

/// A tensor over memory of the device that was freed.
at::Tensor dangling(const at::TensorOptions& options = kOnSim) {
  const at::Tensor gone = at::ones({4}, options);
  return at::from_blob(gone.data_ptr(), {4}, options);
}

std::function<void(TrainingStep&)> planted(std::function<void(TrainingStep&)> body) {
  return [body = std::move(body)](TrainingStep& s) { s.before_update = body; };
}

std::vector<Fault> use_after_free() {
  return {
      {"read", planted([](TrainingStep& s) { s.loss_sum.add_(dangling().sum()); }),
       "use after free: aten::sum"},
      {"write", planted([](TrainingStep&) { dangling().fill_(0); }), "use after free: aten::fill_.Scalar"},
      {"download", planted([](TrainingStep&) { at::empty({4}).pin_memory().copy_(dangling(), true); }),
       "use after free: copy to host"},
      {"upload", planted([](TrainingStep&) { dangling().copy_(at::ones({4}).pin_memory(), true); }),
       "use after free: copy to device"},
      {"on_the_other_device", planted([](TrainingStep&) { dangling(kOnSim.device(kSim1)).mul_(2); }),
       "use after free: aten::mul.out on memory of sim:1"},
      {"record_stream", planted([](TrainingStep& s) { dangling().record_stream(s.side); }),
       "use after free: record_stream"},
  };
}

std::vector<Fault> failures_on_request() {
  const auto before_forward = [](Operation operation, int64_t number) {
    return [=](TrainingStep& s) { s.before_forward = [=](TrainingStep&) { fail_on(operation, number); }; };
  };
  const auto before_backward = [](Operation operation, int64_t number) {
    return [=](TrainingStep& s) { s.before_backward = [=](TrainingStep&) { fail_on(operation, number); }; };
  };
  return {
      {"next_allocation", before_forward(Operation::kAllocation, 1), "sim: out of memory, as was asked for"},
      {"allocation_in_the_backward_pass", before_backward(Operation::kAllocation, 5),
       "sim: out of memory, as was asked for"},
      {"next_launch", before_forward(Operation::kLaunch, 1),
       "as was asked for: the launch of aten::index_select on sim:0"},
      {"launch_in_the_backward_pass", before_backward(Operation::kLaunch, 5),
       "as was asked for: the launch of aten::"},
      {"upload", [](TrainingStep&) { fail_on(Operation::kCopy, 1); },
       "as was asked for: a copy to device of 768 bytes, sim:0"},
      {"second_upload", [](TrainingStep&) { fail_on(Operation::kCopy, 2); },
       "as was asked for: a copy to device of 64 bytes, sim:0"},
      {"download",
       [](TrainingStep& s) {
         s.after_update = [](TrainingStep& step) {
           fail_on(Operation::kCopy, 1);
           at::empty({1}).pin_memory().copy_(step.loss_sum.view({1}), true);
         };
       },
       "as was asked for: a copy to host of 4 bytes, sim:0"},
      {"copy_between_devices",
       [](TrainingStep& s) {
         s.after_update = [](TrainingStep& step) {
           fail_on(Operation::kCopy, 1);
           step.loss_sum.to(kSim1);
         };
       },
       "as was asked for: a copy between devices of 4 bytes, sim:0"},
  };
}

class SimMemoryFaults : public SimTest, public ::testing::WithParamInterface<Fault> {};

TEST_P(SimMemoryFaults, IsCaughtAndNamed) { EXPECT_SAYS(caught(GetParam().plant), GetParam().says); }

INSTANTIATE_TEST_SUITE_P(UseAfterFree, SimMemoryFaults, ::testing::ValuesIn(use_after_free()), fault_name);
INSTANTIATE_TEST_SUITE_P(OnRequest, SimMemoryFaults, ::testing::ValuesIn(failures_on_request()), fault_name);

using SimPlantedFault = SimTest;

TEST_F(SimPlantedFault, AFailureOnRequestComesOnce) {
  fail_on(Operation::kLaunch, 2);
  const at::Tensor x = at::ones({4}, kOnSim);  // the first launch fills it
  EXPECT_FAILS(x + 1, "as was asked for");
  EXPECT_EQ((x + 1).sum().item<float>(), 8);
}

TEST_F(SimPlantedFault, AHostReadOfDeviceMemoryDies) {
  TrainingStep step;
  step.before_forward = [](TrainingStep& s) { s.kept = at::full({}, *s.labels.const_data_ptr<int64_t>()); };
  EXPECT_SAYS(died_with([&] { report_stray_accesses(), step.run(); }),
              "touched the memory of sim:0\nsignal 11");
}

TEST_F(SimPlantedFault, AHostWriteToDeviceMemoryDies) {
  TrainingStep step;
  step.before_forward = [](TrainingStep& s) { *s.loss_sum.mutable_data_ptr<float>() = 0; };
  EXPECT_SAYS(died_with([&] { report_stray_accesses(), step.run(); }),
              "touched the memory of sim:0\nsignal 11");
}

TEST_F(SimPlantedFault, MemoryThatNobodyWroteIsVisibleRubbish) {
  TrainingStep step;
  step.before_update = [](TrainingStep& s) { s.loss_sum.add_(at::empty({4}, kOnSim).sum()); };
  EXPECT_TRUE(std::isnan(step.run()));
}

TEST_F(SimPlantedFault, OverBudgetNamesTheOperatorAndHalfTheBatchFits) {
  constexpr int64_t kRows = 32;
  TrainingStep(kRows).run();
  at::accelerator::emptyCache();
  at::accelerator::resetPeakStats(0);
  const int64_t before = memory(0).reserved;
  TrainingStep(kRows).run();
  const int64_t needed = memory(0).peak_allocated - before;
  at::accelerator::emptyCache();
  set_budget(0, memory(0).reserved + needed * 2 / 3);
  EXPECT_THROW(TrainingStep(kRows).run(), c10::OutOfMemoryError);
  EXPECT_SAYS(thrown_by([] { TrainingStep(kRows).run(); }), "sim:0 out of memory");
  EXPECT_EQ(thrown_by([] { TrainingStep(kRows / 2).run(); }), "");
  EXPECT_EQ(reports(), "");
}

}  // namespace
}  // namespace finetune::sim
