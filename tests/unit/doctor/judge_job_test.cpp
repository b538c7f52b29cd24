#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "finetune/doctor/report.h"

namespace finetune::doctor {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(FitStepModel, SplitsFixedFromPerToken) {
  const StepModel model = fit_step_model("cpu", 1000, 0.011, 200, 0.003);
  EXPECT_NEAR(model.fixed, 0.001, 1e-12);
  EXPECT_NEAR(model.a_token, 1e-5, 1e-12);
  EXPECT_NEAR(model.seconds(500), 0.006, 1e-12);
}

TEST(FitStepModel, NoPartIsNegative) {
  EXPECT_NEAR(fit_step_model("cpu", 1000, 0.010, 200, 0.001).fixed, 0,
              1e-15);                                                          // grows faster than its tokens
  EXPECT_EQ(fit_step_model("cuda:0", 1000, 0.002, 8000, 0.001).a_token, 0);    // shrinks
  EXPECT_NEAR(fit_step_model("cpu", 100, 0.002, 100, 0.003).fixed, 0, 1e-15);  // one point only
}

/// 1 ms a thousand tokens on the CPU; 2 ms for any step on the GPU, and a hundredth a token.
const StepModel kCpu{"cpu", 0.0, 1e-6};
const StepModel kGpu{"cuda:0", 0.002, 1e-8};

TEST(ChooseDevice, AJobTooSmallForTheGpu) {
  const auto findings = choose_device({kGpu, kCpu}, /*tokens_a_row=*/10, /*batch_size=*/16);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].id, "too-small-for-gpu");
  EXPECT_EQ(findings[0].severity, Severity::kSlow);
  EXPECT_THAT(findings[0].seen, HasSubstr("160 us on cpu and 2.0 ms on cuda:0"));
  EXPECT_THAT(findings[0].why, HasSubstr("too small for the GPU"));
  // 2 ms are 2,020 tokens on the CPU, or 202 rows.
  EXPECT_THAT(findings[0].remedy, HasSubstr("--set device=cpu, or --set train.batch_size=256"));
}

TEST(ChooseDevice, AGpuThatNoBatchMakesFaster) {
  const auto findings = choose_device({{"cuda:0", 0.002, 2e-6}, kCpu}, 10, 16);
  EXPECT_THAT(findings.at(0).remedy, HasSubstr("no batch size makes cuda:0 faster"));
}

TEST(ChooseDevice, ACpuWhereTheGpuIsFaster) {
  const auto findings = choose_device({kCpu, kGpu}, 100, 512);
  EXPECT_EQ(findings.at(0).id, "slower-device");
  EXPECT_EQ(findings[0].remedy, "--set device=cuda:0");
}

TEST(ChooseDevice, TheRightOneIsGood) {
  const auto findings = choose_device({kGpu, kCpu}, 100, 512);
  EXPECT_EQ(findings.at(0).severity, Severity::kGood);
  EXPECT_THAT(findings[0].seen,
              HasSubstr("cuda:0 is the right device for this job: 20 times as fast as cpu"));
  EXPECT_THAT(choose_device({kCpu}, 100, 512), IsEmpty());
}

Rehearsal sound_rehearsal() {
  Rehearsal rehearsal{.device = "cuda:0"};
  rehearsal.times = {
      .total = 0.010, .data = 0.0001, .forward = 0.001, .backward = 0.001, .update = 0.001, .wait = 0.007};
  rehearsal.launches = 200;
  rehearsal.plan.weights = 1000;
  rehearsal.available = 5000;
  rehearsal.placement = {{"parameters", 3, 12, {"cuda:0"}, true}};
  return rehearsal;
}

DeviceMeasures asynchronous_device() {
  DeviceMeasures measures{.device = "cuda:0"};
  measures.asynchronous = true;
  return measures;
}

TEST(JudgeRehearsal, ASoundOneHasNoFindings) {
  EXPECT_THAT(judge_rehearsal(sound_rehearsal(), asynchronous_device()), IsEmpty());
}

TEST(JudgeRehearsal, EachFaultIsFound) {
  Rehearsal rehearsal = sound_rehearsal();
  rehearsal.placement.push_back({"meters", 1, 8, {"cpu"}, false});
  rehearsal.host_reads = 2;
  rehearsal.plan.weights = 6000;
  rehearsal.times.data = 0.002;
  rehearsal.times.wait = 0.0001;
  std::vector<std::string> ids;
  for (const Finding& finding : judge_rehearsal(rehearsal, asynchronous_device())) ids.push_back(finding.id);
  EXPECT_THAT(ids, ::testing::ElementsAre("placement", "host-reads", "memory", "data-wait", "launch-bound"));
}

TEST(JudgeRehearsal, AReadThatTheDeviceForbidsIsQuoted) {
  Rehearsal rehearsal = sound_rehearsal();
  rehearsal.read_error = "aten::item on sim:0";
  EXPECT_THAT(judge_rehearsal(rehearsal, asynchronous_device()).at(0).seen, HasSubstr("aten::item on sim:0"));
}

TEST(JudgeWithoutGpu, TellsASmallJobFromALargeOne) {
  Rehearsal rehearsal = sound_rehearsal();
  DeviceMeasures measures{.device = "cpu"};
  measures.launch_seconds = 1e-6;  // with the launch itself 6 us: 200 of them are 1.2 ms
  rehearsal.times.total = 0.002;
  EXPECT_THAT(judge_without_gpu(rehearsal, 1000000, measures).seen, HasSubstr("1.2 ms at least"));
  EXPECT_THAT(judge_without_gpu(rehearsal, 1000000, measures).why,
              HasSubstr("too small for a GPU: its time"));
  rehearsal.times.total = 0.012;
  EXPECT_THAT(judge_without_gpu(rehearsal, 1000, measures).why, HasSubstr("whole run takes 12 s here"));
  EXPECT_THAT(judge_without_gpu(rehearsal, 100000, measures).why, HasSubstr("up to 10 times"));
}

TEST(JudgeProducts, ABusyGpuIsSoundAndAnIdleOneIsNot) {
  DeviceMeasures measures{.device = "cuda:0"};
  measures.products = {{.type = "fp32", .size = 4096, .count = 100, .seconds = 0.3, .utilization = 0.99}};
  EXPECT_THAT(judge_products(measures), IsEmpty());
  measures.products[0].utilization = 0.4;
  const auto findings = judge_products(measures);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].id, "gpu-not-busy");
  EXPECT_THAT(findings[0].seen, HasSubstr("40 % busy"));
}

TEST(JudgeProducts, ATypeThatCannotBeMultiplied) {
  DeviceMeasures measures{.device = "cuda:0"};
  measures.products = {{.type = "fp32", .why_not = "no kernel image"},
                       {.type = "bf16", .why_not = "unsupported"}};
  const auto findings = judge_products(measures);
  ASSERT_THAT(findings, SizeIs(2));
  EXPECT_EQ(findings[0].severity, Severity::kBroken);
  EXPECT_EQ(findings[1].severity, Severity::kNote);
}

TEST(JudgeProducts, ACpuWithoutBf16) {
  DeviceMeasures measures{.device = "cpu"};
  measures.products = {{.type = "fp32", .size = 1024, .count = 10, .seconds = 0.1},
                       {.type = "bf16", .size = 1024, .count = 1, .seconds = 0.1}};
  EXPECT_THAT(judge_products(measures).at(0).seen, HasSubstr("10 % of fp32's rate"));
}

TEST(ProductRate, IsTwoOperationsAnElementOfTheSum) {
  const ProductRate rate{.type = "fp32", .size = 1000, .count = 5, .seconds = 0.01};
  EXPECT_DOUBLE_EQ(rate.tflops(), 1.0);
}

TEST(AuditPlacement, TicksOneDeviceAndCrossesTwo) {
  const auto here = at::zeros({4}),
             there = at::empty({2, 2}, at::TensorOptions(at::kDouble).device(at::kMeta));
  const auto rows = audit_placement(
      {{"parameters", {here, here}}, {"meters", {here, there}}, {"buffers", {}}, {"labels", {at::Tensor()}}},
      at::kCPU);
  ASSERT_THAT(rows, SizeIs(4));
  EXPECT_TRUE(rows[0].ok);
  EXPECT_EQ(rows[0].num_tensors, 2);
  EXPECT_EQ(rows[0].bytes, 32);
  EXPECT_FALSE(rows[1].ok);
  EXPECT_THAT(rows[1].devices, ::testing::ElementsAre("cpu", "meta"));
  EXPECT_EQ(rows[1].bytes, 48);
  EXPECT_TRUE(rows[2].ok);
  EXPECT_EQ(rows[3].num_tensors, 0);
}

}  // namespace
}  // namespace finetune::doctor
