#include "doctor/machine.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "finetune/doctor/probe.h"

namespace finetune::doctor {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(CpuQuota, IsPeriodsOfTime) {
  EXPECT_EQ(parse_cpu_quota("150000 100000"), 1.5);
  EXPECT_EQ(parse_cpu_quota("max 100000"), 0);
  EXPECT_EQ(parse_cpu_quota("-1 100000"), 0);
  EXPECT_EQ(parse_cpu_quota(""), 0);
}

TEST(TorchCuda, IsReadFromVersionPy) {
  EXPECT_EQ(parse_torch_cuda("__version__ = '2.11.0+cu130'\ncuda: Optional[str] = '13.0'\nhip = None\n"),
            "13.0");
  EXPECT_EQ(parse_torch_cuda("__version__ = '2.11.0+cpu'\ncuda: Optional[str] = None\n"), "");
}

TEST(Architectures, AreReadFromTheBuildsFlags) {
  EXPECT_THAT(parse_architectures("NVCC architecture flags: -gencode;arch=compute_80,code=sm_80;-gencode;"
                                  "arch=compute_120,code=compute_120\n"),
              ElementsAre("sm_80", "compute_120"));
  EXPECT_THAT(parse_architectures("MKL is used"), IsEmpty());
}

TEST(StrayLibraries, AreFoundInFoldersOfLdLibraryPath) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("finetune-stray-" + std::to_string(::getpid()));
  for (const char* name : {"a", "own"}) std::filesystem::create_directories(folder / name);
  for (const char* name : {"a/libcuda.so.1", "a/libcudart.so.12", "a/libcudart.so.12.4.1", "a/libc.so.6",
                           "own/libcudart.so.13"}) {
    std::ofstream(folder / name) << "";
  }
  const auto found = find_stray_libraries((folder / "a").string() + ":/nowhere:" + (folder / "own").string(),
                                          (folder / "own").string());
  std::filesystem::remove_all(folder);
  std::vector<std::string> names;
  for (const StrayLibrary& library : found) names.push_back(library.name);
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("libcuda.so.1", "libcudart.so.12"));
}

TEST(MachineProbe, FindsWhatEveryMachineHas) {
  const MachineFacts facts = machine_probe()->look();
  EXPECT_THAT(facts.cpu.name, Not(IsEmpty()));
  EXPECT_GE(facts.cpu.usable, 1);
  EXPECT_GE(facts.cpu.cores, facts.cpu.usable);
  EXPECT_GT(facts.cpu.memory_total, facts.cpu.memory_available);
  EXPECT_TRUE(std::filesystem::exists(facts.libtorch.folder + "/lib/libtorch_cpu.so"))
      << facts.libtorch.folder;
  EXPECT_EQ(facts.gpus.size(), static_cast<size_t>(facts.driver.num_devices));
}

}  // namespace
}  // namespace finetune::doctor
