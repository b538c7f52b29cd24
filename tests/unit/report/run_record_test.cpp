#include "finetune/report/run_record.h"

#include <gmock/gmock.h>

#include <fstream>

#include "core/temporary_folder.h"
#include "finetune/core/error.h"

namespace finetune {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class RunRecordTest : public TemporaryFolderTest {
 protected:
  void write(const char* name, const std::string& text) const { std::ofstream(folder_ / name) << text; }
  Json record() const { return read_run_record(folder_); }
};

constexpr const char* kLog = R"({"event":"start","step":0,"device":"cpu","num_steps":4}
{"event":"train","step":1,"epoch":0.5,"loss":2.0,"learning_rate":0.1}
{"event":"train","step":2,"epoch":1.0,"loss":null,"learning_rate":0.2}
{"event":"eval","split":"validation","step":2,"loss":1.5,"accuracy":0.25}
{"event":"resume","step":2,"device":"cuda"}
{"event":"train","step":3,"epoch":1.5,"loss":1.0,"learning_rate":0.3,"power_w":50}
)";

TEST_F(RunRecordTest, HasAColumnForEachFieldOfALog) {
  write("metrics.jsonl", kLog);
  const Json run = record();
  EXPECT_EQ(run["train"]["step"], Json({1, 2, 3}));
  EXPECT_EQ(run["train"]["loss"], Json({2, nullptr, 1}));
  EXPECT_EQ(run["train"]["power_w"], Json({nullptr, nullptr, 50}));
  EXPECT_EQ(run["eval"]["validation"]["accuracy"], Json({0.25}));
  EXPECT_EQ(run["start"]["device"], "cuda");
  EXPECT_EQ(run["resumes"], Json({2}));
  EXPECT_TRUE(run["problems"].empty()) << run["problems"];
}

TEST_F(RunRecordTest, SaysThatARunWithoutASummaryIsUnfinished) {
  write("metrics.jsonl", kLog);
  EXPECT_EQ(record()["status"], "unfinished");
  EXPECT_TRUE(record()["summary"].is_null());
  write("summary.json", R"({"status": "failed", "steps": 3})");
  EXPECT_EQ(record()["status"], "failed");
}

TEST_F(RunRecordTest, LeavesOutALastLineThatIsCutOff) {
  write("metrics.jsonl", kLog + std::string(R"({"event":"train","step":4,"lo)"));
  const Json run = record();
  EXPECT_EQ(run["train"]["step"], Json({1, 2, 3}));
  ASSERT_EQ(run["problems"].size(), 1u);
  EXPECT_THAT(run["problems"][0].get<std::string>(), HasSubstr("last line is cut off"));
}

TEST_F(RunRecordTest, NamesTheFirstLineThatIsNoEvent) {
  const std::string zeros("\0\0\0\n", 4);
  write("metrics.jsonl", "[1]\n" + std::string(kLog) + zeros + "{\"event\": 7}\n{\"event\":\"end\"}\n");
  const Json run = record();
  EXPECT_EQ(run["train"]["step"].size(), 3u);
  ASSERT_EQ(run["problems"].size(), 1u);
  EXPECT_THAT(run["problems"][0].get<std::string>(), AllOf(HasSubstr("3 line(s)"), HasSubstr("line 1")));
}

TEST_F(RunRecordTest, ThinsALongLogToMeans) {
  std::string log;
  const int count = 3 * static_cast<int>(kMostPoints);
  for (int step = 1; step <= count; ++step)
    log += R"({"event":"train","step":)" + std::to_string(step) + R"(,"loss":)" + std::to_string(step % 3) +
           "}\n";
  write("metrics.jsonl", log);
  const Json train = record()["train"];
  ASSERT_EQ(train["step"].size(), kMostPoints);
  EXPECT_EQ(train["step"][0], 3);
  EXPECT_EQ(train["step"].back(), count);
  for (const Json& loss : train["loss"]) EXPECT_EQ(loss, 1);
  EXPECT_THAT(record()["problems"].dump(), HasSubstr("4,500 points"));
}

TEST_F(RunRecordTest, ShowsWhatThereIsOfADamagedRun) {
  write("config.json", "{\"output_dir\": ");
  write("summary.json", R"({"status": "completed"})");
  const Json run = record();
  EXPECT_TRUE(run["config"].is_null());
  EXPECT_EQ(run["status"], "completed");
  EXPECT_THAT(run["problems"].dump(),
              AllOf(HasSubstr("config.json: it is damaged"), HasSubstr("metrics.jsonl: it is missing")));
}

TEST_F(RunRecordTest, RefusesAFolderThatIsNoRun) {
  write("config.json", R"({"model_type": "bert"})");  // a model's
  EXPECT_THAT([&] { record(); }, ThrowsMessage<ConfigError>(
                                     AllOf(HasSubstr(folder_.string()), HasSubstr("is no run's folder"))));
  EXPECT_THAT([&] { read_run_record(folder_ / "absent"); },
              ThrowsMessage<ConfigError>(HasSubstr("no such folder")));
  std::filesystem::create_directory(folder_ / "trial-1");
  write("trial-1/metrics.jsonl", kLog);
  EXPECT_THAT([&] { record(); }, ThrowsMessage<ConfigError>(HasSubstr("trial-1")));
}

}  // namespace
}  // namespace finetune
