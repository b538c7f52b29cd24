/// What the program gets when it loads the device as a plugin.

#include "finetune/device/plugin.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "died_with.h"
#include "finetune/core/json.h"
#include "support.h"

extern "C" const finetune::DevicePlugin* finetune_device_plugin(const char** why_not);

namespace finetune::sim {
namespace {

const DevicePlugin& plugin() {
  const char* why_not = nullptr;
  return *finetune_device_plugin(&why_not);
}

using SimPlugin = SimTest;

TEST_F(SimPlugin, OffersBothDevices) {
  EXPECT_EQ(plugin().num_devices, kDevices);
  EXPECT_SAYS(plugin().services->describe(kSim), "simulated");
}

TEST_F(SimPlugin, ServicesCountMemory) {
  const at::Tensor x = at::empty({kMiB}, kOnSim);
  const MemoryStats stats = plugin().services->memory(kSim);
  EXPECT_EQ(stats.allocated, memory(0).allocated);
  EXPECT_EQ(stats.reserved, memory(0).reserved);
  EXPECT_EQ(stats.peak, memory(0).peak_allocated);
  EXPECT_GE(stats.allocated, 4 * kMiB);
}

TEST_F(SimPlugin, ServicesSynchronize) {
  const at::Tensor pinned = at::ones({4}).pin_memory(), on_sim = pinned.to(kSim, /*non_blocking=*/true);
  plugin().services->synchronize(kSim);
  at::Tensor(pinned).fill_(2);
  EXPECT_EQ(reports(), "");
}

TEST_F(SimPlugin, ServicesForbidHostReads) {
  const at::Tensor x = at::ones({1}, kOnSim);
  {
    const NoHostReads guard(*plugin().services);
    EXPECT_FAILS(x.item(), "aten::_local_scalar_dense, inside strict section 1");
  }
  EXPECT_EQ(x.item<float>(), 1);
}

TEST_F(SimPlugin, RefusesAMalformedEnvironment) {
  for (const char* value :
       {"", "allocation", "allocation:", "allocation:0", "allocation:-1", "copy:3x", "read:1"}) {
    ::setenv("FINETUNE_SIM_FAIL", value, 1);
    const char* why_not = nullptr;
    EXPECT_EQ(finetune_device_plugin(&why_not), nullptr) << value;
    EXPECT_SAYS(why_not, "FINETUNE_SIM_FAIL is none of allocation:N, copy:N and launch:N");
  }
  ::unsetenv("FINETUNE_SIM_FAIL");
  ::setenv("FINETUNE_SIM_BUDGET", "much", 1);
  const char* why_not = nullptr;
  EXPECT_EQ(finetune_device_plugin(&why_not), nullptr);
  EXPECT_SAYS(why_not, "FINETUNE_SIM_BUDGET");
  ::unsetenv("FINETUNE_SIM_BUDGET");
}

TEST_F(SimPlugin, FailsAndLimitsAsTheEnvironmentSays) {
  ::setenv("FINETUNE_SIM_FAIL", "launch:2", 1);
  ::setenv("FINETUNE_SIM_BUDGET", "1048576", 1);
  plugin();
  ::unsetenv("FINETUNE_SIM_FAIL");
  ::unsetenv("FINETUNE_SIM_BUDGET");
  EXPECT_EQ(memory(0).budget, kMiB);
  const at::Tensor x = at::ones({4}, kOnSim);
  EXPECT_FAILS(x + 1, "failed, as was asked for: the launch of aten::add.Tensor on sim:0");
}

TEST_F(SimPlugin, ReportsAtTheEndOfTheProcess) {
  const std::string path = ::testing::TempDir() + "sim_report.json";
  const std::string end = died_with([&] {
    ::setenv("FINETUNE_SIM_REPORT", path.c_str(), 1);
    plugin();
    const at::Tensor x = at::ones({4}, kOnSim);
    {
      const c10::StreamGuard on(side_stream());
      (void)(x + 1);
    }
    x.sum().item<float>();
    std::exit(0);
  });
  ASSERT_EQ(end, "survived");
  std::ifstream file(path);
  const Json report = Json::parse(file);
  EXPECT_EQ(report.at("host_reads"), 1);
  EXPECT_EQ(report.at("reads").at("aten::_local_scalar_dense"), 1);
  ASSERT_EQ(report.at("violations").size(), 1u);
  EXPECT_SAYS(report.at("violations")[0].get<std::string>(), "race on storage");
  EXPECT_GT(report.at("memory")[0].at("peak_allocated").get<int64_t>(), 0);
}

}  // namespace
}  // namespace finetune::sim
