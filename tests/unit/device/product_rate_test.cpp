#include "finetune/device/product_rate.h"

#include <gtest/gtest.h>

namespace finetune {
namespace {

TEST(ProductRate, OfTheCpuIsThatOfAWorkingMachine) {
  const OpenDevice device = open_device("cpu", 1);
  const auto rate = measure_product_rate(device, at::kFloat, 1 << 24);
  ASSERT_TRUE(rate);
  EXPECT_GT(*rate, 1e7) << "slower than any machine that LibTorch runs on";
  EXPECT_LT(*rate, 1e16);
}

TEST(ProductRate, TakesNoMoreMemoryThanItMay) {
  EXPECT_FALSE(measure_product_rate(open_device("cpu", 1), at::kFloat, 1 << 10));
}

}  // namespace
}  // namespace finetune
