#include "finetune/device/device.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>

#include "finetune/core/error.h"

namespace finetune {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(OpenDevice, TheCpuIsAlwaysThere) {
  const OpenDevice device = open_device("cpu", 1);
  EXPECT_TRUE(device.device.is_cpu());
  EXPECT_EQ(device.reason, "asked for");
  EXPECT_EQ(at::get_num_threads(), 1);
  const MemoryStats memory = device.services->memory(device.device);
  EXPECT_GT(memory.allocated, 0);
  EXPECT_GE(memory.peak, memory.allocated);
  EXPECT_THAT(device.services->describe(device.device), HasSubstr("1 threads"));
}

TEST(OpenDevice, RefusesNamesThatNoPluginBrings) {
  for (const char* name : {"banana", "cuda:", "cuda:1x", "cuda:-1", "sim:0", ""}) {
    EXPECT_THAT([&] { open_device(name, 1); },
                ThrowsMessage<ConfigError>(AllOf(HasSubstr("device: found '" + std::string(name) + "'"),
                                                 HasSubstr("expected auto, cpu, cuda or cuda:N"))))
        << name;
  }
}

TEST(OpenDevice, RefusesADeviceWithoutAPlugin) {
  EXPECT_THAT([] { open_device("xpu", 1); },
              ThrowsMessage<DeviceError>(AllOf(HasSubstr("device 'xpu' cannot be used"),
                                               HasSubstr("libfinetune_xpu.so not found"),
                                               HasSubstr("choose device cpu"))));
}

TEST(DescribeEnvironment, NamesWhatTheNumbersDependOn) {
  const Json environment = describe_environment(open_device("cpu", 1));
  EXPECT_EQ(environment.at("device"), "cpu");
  EXPECT_EQ(environment.at("threads"), 1);
  for (const char* key : {"finetune", "libtorch", "isa", "device_name", "device_reason"}) {
    EXPECT_FALSE(environment.at(key).get<std::string>().empty()) << key;
  }
}

class WatchedServices final : public DeviceServices {
 public:
  MemoryStats memory(c10::Device) const override { return {}; }
  void synchronize(c10::Device) const override {}
  std::string describe(c10::Device) const override { return ""; }
  void forbid_host_reads(bool forbidden) const override { calls.push_back(forbidden); }
  mutable std::vector<bool> calls;
};

TEST(NoHostReads, AreForbiddenForAsLongAsItLives) {
  const WatchedServices services;
  try {
    const NoHostReads guard(services);
    EXPECT_EQ(services.calls, std::vector<bool>{true});
    throw std::runtime_error("a step fails");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(services.calls, (std::vector<bool>{true, false}));
}

}  // namespace
}  // namespace finetune
