#include <gmock/gmock.h>

#include <functional>

#include "facts_fixture.h"

namespace finetune::doctor {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

/// What breaks the sound machine, and what has to be said of it.
struct Cause {
  const char* id;
  std::function<void(MachineFacts&)> breaks;
  const char* seen;
  const char* remedy;
};

void PrintTo(const Cause& cause, std::ostream* out) { *out << cause.id; }

std::vector<Cause> causes() {
  return {
      {"libtorch-cpu-build", [](MachineFacts& f) { f.libtorch.cuda.clear(); }, "is a build for the CPU",
       "scripts/setup"},
      {"libtorch-cuda-missing", [](MachineFacts& f) { f.libtorch.cuda_library = false; }, "libtorch_cuda.so",
       "scripts/setup"},
      {"no-driver",
       [](MachineFacts& f) {
         f = machine_without_gpu();
         f.pci_gpus = 2;
       },
       "2 NVIDIA GPUs on the PCI bus, but no driver", "nvidia-driver"},
      {"no-gpu", [](MachineFacts& f) { f = machine_without_gpu(); }, "no NVIDIA GPU on the PCI bus",
       "device=cpu"},
      {"stub-libcuda", [](MachineFacts& f) { f.driver.init_code = 34; }, "stub", "unset LD_LIBRARY_PATH"},
      {"driver-mismatch", [](MachineFacts& f) { f.driver.init_code = 803; }, "kernel module", "reboot"},
      {"driver-mismatch", [](MachineFacts& f) { f.driver.init_code = 804; }, "kernel module", "reboot"},
      {"system-not-ready", [](MachineFacts& f) { f.driver.init_code = 802; }, "fabric", "fabricmanager"},
      {"driver-fails", [](MachineFacts& f) { f.driver.init_code = 999; }, "cuInit returned 999",
       "nvidia-smi"},
      {"no-device",
       [](MachineFacts& f) {
         f.driver.init_code = 100;
         f.driver.num_devices = 0;
       },
       "reports no device", "--gpus all"},
      {"cuda-visible-devices",
       [](MachineFacts& f) {
         f.driver.init_code = 100;
         f.driver.num_devices = 0;
         f.environment["CUDA_VISIBLE_DEVICES"] = "";
       },
       "CUDA_VISIBLE_DEVICES is ''", "unset CUDA_VISIBLE_DEVICES"},
      {"driver-too-old",
       [](MachineFacts& f) {
         f.driver.version = "550.54";
         f.driver.cuda_version = 12040;
       },
       "driver 550.54 runs CUDA up to 12.4; LibTorch 2.11.0 was built with CUDA 13.0",
       "update the driver to 580 or later, or build against LibTorch 2.11.0+cu126"},
      {"driver-too-old",
       [](MachineFacts& f) {
         f.driver.version = "470.1";
         f.driver.cuda_version = 11040;
       },
       "CUDA up to 11.4", "no LibTorch 2.11.0 fits this one"},
      {"architecture",
       [](MachineFacts& f) {
         f.gpus[0].major = 7;
         f.gpus[0].minor = 0;
       },
       "compute capability 7.0; this LibTorch is compiled for sm_80", "sm_70"},
      {"plugin-missing", [](MachineFacts& f) { f.plugin = {}; }, "libfinetune_cuda.so", "-DFINETUNE_CUDA=ON"},
      {"plugin-fails",
       [](MachineFacts& f) {
         f.plugin.usable = false;
         f.plugin.why_not = "undefined symbol: x";
       },
       "undefined symbol: x", "build again"},
      {"stray-libcuda",
       [](MachineFacts& f) {
         f.driver.init_code = 999;
         f.stray_libraries = {{"libcuda.so.1", "/usr/local/cuda/compat/libcuda.so.1"}};
       },
       "/usr/local/cuda/compat/libcuda.so.1", "unset LD_LIBRARY_PATH"},
  };
}

class CudaCause : public ::testing::TestWithParam<Cause> {};

TEST_P(CudaCause, IsNamedWithItsRemedy) {
  MachineFacts facts = sound_machine();
  GetParam().breaks(facts);
  const auto findings = judge_cuda(facts, /*cuda_requested=*/true);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].id, GetParam().id);
  EXPECT_EQ(findings[0].severity, Severity::kBroken);
  EXPECT_THAT(findings[0].seen, HasSubstr(GetParam().seen));
  EXPECT_THAT(findings[0].remedy, HasSubstr(GetParam().remedy));
  EXPECT_FALSE(findings[0].why.empty());
}

TEST_P(CudaCause, IsNotBrokenWhereNobodyAskedForCuda) {
  MachineFacts facts = sound_machine();
  GetParam().breaks(facts);
  const auto findings = judge_cuda(facts, /*cuda_requested=*/false);
  ASSERT_THAT(findings, SizeIs(1));
  // A GPU that lies idle costs speed; where there is none, that is worth a note.
  EXPECT_EQ(findings[0].severity, facts.pci_gpus > 0 ? Severity::kSlow : Severity::kNote);
}

INSTANTIATE_TEST_SUITE_P(All, CudaCause, ::testing::ValuesIn(causes()),
                         [](const auto& cause) { return "cause" + std::to_string(cause.index); });

TEST(JudgeCuda, ASoundMachineIsGood) {
  const auto findings = judge_cuda(sound_machine(), true);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].severity, Severity::kGood);
  EXPECT_THAT(findings[0].seen, HasSubstr("driver 580.65.06 (CUDA 13.0), 1 device"));
}

TEST(JudgeCuda, ANewerDriverOfTheSameMajorVersionServes) {
  MachineFacts facts = sound_machine();
  facts.libtorch.cuda = "12.6";
  facts.driver.cuda_version = 12020;
  EXPECT_EQ(judge_cuda(facts, true)[0].severity, Severity::kGood);
  facts.driver.cuda_version = 13000;
  EXPECT_EQ(judge_cuda(facts, true)[0].severity, Severity::kGood);
}

TEST(JudgeCuda, AStrayLibcudaThatWorksIsANote) {
  MachineFacts facts = sound_machine();
  facts.stray_libraries = {{"libcuda.so.1", "/compat/libcuda.so.1"},
                           {"libcudart.so.12", "/x/libcudart.so.12"}};
  const auto findings = judge_cuda(facts, true);
  ASSERT_THAT(findings, SizeIs(3));
  EXPECT_EQ(findings[0].id, "cuda-usable");
  EXPECT_EQ(findings[1].id, "stray-libcuda");
  EXPECT_EQ(findings[1].severity, Severity::kNote);
  EXPECT_EQ(findings[2].id, "stray-library");
  EXPECT_THAT(findings[2].seen, HasSubstr("/x/libcudart.so.12"));
}

TEST(JudgeCuda, OtherProcessesOnTheGpuAreTold) {
  MachineFacts facts = sound_machine();
  facts.gpus[0].other_processes = 2;
  facts.gpus[0].other_bytes = int64_t{30} << 30;
  facts.gpus[0].utilization = 0.8;
  const auto findings = judge_cuda(facts, true);
  ASSERT_THAT(findings, SizeIs(2));
  EXPECT_EQ(findings[1].id, "gpu-shared");
  EXPECT_THAT(findings[1].seen, HasSubstr("2 other processes with 30720 MiB, 80 % busy"));
}

TEST(ArchitectureFits, BinariesWithinAMajorVersionAndPortableCodeBeyond) {
  EXPECT_TRUE(architecture_fits({"sm_80"}, 8, 9));
  EXPECT_FALSE(architecture_fits({"sm_86"}, 8, 0));
  EXPECT_FALSE(architecture_fits({"sm_80"}, 9, 0));
  EXPECT_TRUE(architecture_fits({"compute_80"}, 9, 0));
  EXPECT_TRUE(architecture_fits({"sm_120"}, 12, 1));
  EXPECT_FALSE(architecture_fits({"sm_120"}, 10, 0));
  EXPECT_FALSE(architecture_fits({}, 9, 0));
}

}  // namespace
}  // namespace finetune::doctor
