#include <gmock/gmock.h>

#include "facts_fixture.h"

namespace finetune::doctor {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(JudgeSettings, ASoundMachineHasNone) { EXPECT_THAT(judge_settings(sound_machine(), 8), IsEmpty()); }

struct Setting {
  const char* variable;
  const char* value;
  const char* id;
};

class SlowSetting : public ::testing::TestWithParam<Setting> {};

TEST_P(SlowSetting, IsNamedWithWhatUnsetsIt) {
  MachineFacts facts = sound_machine();
  facts.environment[GetParam().variable] = GetParam().value;
  const auto findings = judge_settings(facts, 8);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].id, GetParam().id);
  EXPECT_EQ(findings[0].seen.substr(0, findings[0].seen.find(',')),
            std::string(GetParam().variable) + "=" + GetParam().value);
  EXPECT_THAT(findings[0].remedy, HasSubstr(std::string("unset ") + GetParam().variable));
  EXPECT_FALSE(findings[0].why.empty());
}

INSTANTIATE_TEST_SUITE_P(
    All, SlowSetting,
    ::testing::Values(Setting{"CUDA_LAUNCH_BLOCKING", "1", "slow-setting"},
                      Setting{"PYTORCH_NO_CUDA_MEMORY_CACHING", "1", "slow-setting"},
                      Setting{"NVIDIA_TF32_OVERRIDE", "0", "slow-setting"},
                      Setting{"ATEN_CPU_CAPABILITY", "default", "slow-setting"},
                      Setting{"PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync", "allocator-options"},
                      Setting{"PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:64", "allocator-options"},
                      Setting{"PYTORCH_ALLOC_CONF", "garbage_collection_threshold:0.6", "allocator-options"},
                      Setting{"OMP_NUM_THREADS", "2", "thread-variable"},
                      Setting{"OMP_PROC_BIND", "true", "thread-binding"}),
    [](const auto& setting) { return "setting" + std::to_string(setting.index); });

TEST(JudgeSettings, HarmlessValuesAreLeftAlone) {
  MachineFacts facts = sound_machine();
  facts.environment = {{"CUDA_LAUNCH_BLOCKING", "0"},
                       {"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"},
                       {"OMP_NUM_THREADS", "8"},
                       {"CUDA_VISIBLE_DEVICES", "0"}};
  EXPECT_THAT(judge_settings(facts, 8), IsEmpty());
}

TEST(JudgeSettings, MoreThreadsThanTheContainerMayUse) {
  MachineFacts facts = sound_machine();
  facts.cpu.quota = 2.5;
  const auto findings = judge_settings(facts, 8);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].id, "cpu-quota");
  EXPECT_THAT(findings[0].seen, HasSubstr("8 threads, but the container may use 2.5"));
  EXPECT_EQ(findings[0].remedy, "--set threads=3");
}

TEST(JudgeSettings, ThreadsThatDoNotFitTheCores) {
  EXPECT_EQ(judge_settings(sound_machine(), 16).at(0).id, "too-many-threads");
  EXPECT_EQ(judge_settings(sound_machine(), 1).at(0).id, "too-few-threads");
}

TEST(JudgeSettings, TheCpuItself) {
  MachineFacts facts = sound_machine();
  facts.cpu.features = {"sse4_2"};
  facts.cpu.load = 7.5;
  facts.cpu.memory_available = int64_t{1} << 30;
  const auto findings = judge_settings(facts, 8);
  ASSERT_THAT(findings, SizeIs(3));
  EXPECT_EQ(findings[0].id, "no-avx2");
  EXPECT_EQ(findings[1].id, "machine-busy");
  EXPECT_EQ(findings[2].id, "memory-low");
}

}  // namespace
}  // namespace finetune::doctor
