#include "device/cuda/limits.h"

#include <gmock/gmock.h>

#include "finetune/core/error.h"

namespace finetune {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(DeviceLimits, DevicesBeforeAmpereAreRefusedByName) {
  const auto problem = too_old_a_device(1, "Tesla V100", 7, 0);
  ASSERT_TRUE(problem.has_value());
  EXPECT_THAT(*problem, AllOf(HasSubstr("device 1, Tesla V100, has compute capability 7.0"),
                              HasSubstr("need 8.0 or later"), HasSubstr("CUDA_VISIBLE_DEVICES")));
  EXPECT_FALSE(too_old_a_device(0, "A100", 8, 0).has_value());
  EXPECT_FALSE(too_old_a_device(0, "H200", 9, 0).has_value());
}

TEST(DeviceLimits, ABlockThatNeedsTooMuchSharedMemoryIsRefused) {
  check_shared_memory(101376, 101376, "RTX 3090");
  try {
    check_shared_memory(101377, 101376, "RTX 3090");
    FAIL() << "one byte too many must be refused";
  } catch (const DeviceError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("101377 bytes"), HasSubstr("RTX 3090 has 101376"),
                                    HasSubstr("train.precision to bf16")));
  }
}

}  // namespace
}  // namespace finetune
