#include "device/cuda/nvml.h"

#include <gtest/gtest.h>

namespace finetune {
namespace {

TEST(Nvml, TellsUtilizationAndPower) {
  const DeviceUse use = nvml_use("0000:01:00.0");
  EXPECT_DOUBLE_EQ(use.utilization.value_or(-1), 0.73);
  EXPECT_DOUBLE_EQ(use.power_w.value_or(-1), 412.5);
}

TEST(Nvml, LeavesOutWhatTheDeviceDoesNotTell) {
  const DeviceUse use = nvml_use("0000:02:00.0");
  EXPECT_DOUBLE_EQ(use.utilization.value_or(-1), 0.05);
  EXPECT_FALSE(use.power_w.has_value());
}

TEST(Nvml, AnUnknownDeviceTellsNothing) {
  const DeviceUse use = nvml_use("0000:09:00.0");
  EXPECT_FALSE(use.utilization.has_value());
  EXPECT_FALSE(use.power_w.has_value());
}

}  // namespace
}  // namespace finetune
