#include "finetune/train/memory_plan.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

namespace finetune {
namespace {

using ::testing::HasSubstr;

TEST(LargestMicroBatch, TakesTheLongestRowsWithinTheBudget) {
  const std::vector<int32_t> lengths{3, 9, 5, 7};
  EXPECT_EQ(largest_micro_batch(lengths, 2, 0), 16);
  EXPECT_EQ(largest_micro_batch(lengths, 0, 0), 24);
  EXPECT_EQ(largest_micro_batch(lengths, 4, 21), 21);
  EXPECT_EQ(largest_micro_batch(lengths, 4, 20), 16);
  EXPECT_EQ(largest_micro_batch(lengths, 4, 2), 9);  // a single longer row is taken whole
}

TEST(PlanMemory, CountsWhatTheParametersHold) {
  EncoderConfig encoder;
  encoder.hidden_size = 8;
  encoder.num_layers = encoder.num_heads = 2;
  encoder.intermediate_size = 16;
  const std::vector<Parameter> parameters{{"a.weight", at::zeros({8, 8}), at::zeros({8, 8})},
                                          {"a.bias", at::zeros({8}), at::zeros({8})}};
  OptimizerConfig optimizer;
  const MemoryPlan plan = plan_memory(encoder, parameters, optimizer, 10, 123);
  EXPECT_EQ(plan.weights, 72 * 4);
  EXPECT_EQ(plan.gradients, 72 * 4);
  EXPECT_EQ(plan.moments, 2 * 72 * 4);
  EXPECT_EQ(plan.data, 123);
  EXPECT_EQ(plan.activations, estimate_activations(encoder, 10));
  EXPECT_EQ(plan.total(), 4 * 72 * 4 + 123 + plan.activations);
  optimizer.type = OptimizerType::kSgd;
  EXPECT_EQ(plan_memory(encoder, parameters, optimizer, 10, 123).moments, 0);
}

TEST(PlanMemory, LayersInHalfPrecisionTakeHalf) {
  EncoderConfig encoder;
  encoder.hidden_size = 64;
  encoder.num_layers = 3;
  encoder.num_heads = 4;
  encoder.intermediate_size = 256;
  const int64_t embeddings = 10 * 3 * 64 * 4;
  EXPECT_EQ(2 * (estimate_activations(encoder, 10, at::kBFloat16) - embeddings),
            estimate_activations(encoder, 10) - embeddings);
  const std::vector<Parameter> parameters{
      {"a.weight", at::zeros({8, 8}), at::zeros({8, 8}), at::zeros({8, 8}, at::kHalf)}};
  EXPECT_EQ(plan_memory(encoder, parameters, {}, 10, 0).activations,
            estimate_activations(encoder, 10, at::kHalf));
}

TEST(MemoryPlanText, NamesEachPartAndWhatIsFree) {
  const MemoryPlan plan{
      .weights = 90 << 20, .gradients = 90 << 20, .moments = 180 << 20, .activations = 3 << 20, .data = 2048};
  EXPECT_EQ(
      to_text(plan, int64_t{3} << 30),
      "about 363 MiB (weights 90 MiB, gradients 90 MiB, moments 180 MiB, activations 3 MiB, data 2 KiB) of "
      "3.0 GiB free");
  EXPECT_THAT(to_text(plan, std::nullopt), HasSubstr("data 2 KiB)"));
}

}  // namespace
}  // namespace finetune
