#include "finetune/report/run_log.h"

#include <gmock/gmock.h>

#include <cmath>
#include <system_error>

#include "core/temporary_folder.h"
#include "finetune/core/file.h"

namespace finetune {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class RunLogTest : public TemporaryFolderTest {
 protected:
  std::string content() const { return read_file(path()); }
  std::filesystem::path path() const { return folder_ / "metrics.jsonl"; }
};

TEST_F(RunLogTest, WritesAnObjectALineAsItHappens) {
  RunLog log(path(), 0);
  log.write("start", Json{{"step", 0}});
  EXPECT_EQ(content(), "{\"event\":\"start\",\"step\":0}\n");
  log.write("train", Json{{"step", 1}, {"loss", 0.5}});
  EXPECT_EQ(content(), "{\"event\":\"start\",\"step\":0}\n{\"event\":\"train\",\"step\":1,\"loss\":0.5}\n");
}

TEST_F(RunLogTest, CutsWhatCameAfterACheckpoint) {
  int64_t length = 0;
  {
    RunLog log(path(), 0);
    log.write("train", Json{{"step", 1}});
    length = log.sync();
    log.write("train", Json{{"step", 2}});
  }
  RunLog log(path(), length);
  log.write("resume", Json{{"step", 1}});
  EXPECT_EQ(content(), "{\"event\":\"train\",\"step\":1}\n{\"event\":\"resume\",\"step\":1}\n");
  EXPECT_EQ(log.sync(), static_cast<int64_t>(content().size()));
}

TEST_F(RunLogTest, OfANewRunBeginsEmpty) {
  write_file_atomically(path(), "an old log\n");
  RunLog log(path(), 0);
  EXPECT_EQ(content(), "");
}

TEST_F(RunLogTest, ShorterThanTheCheckpointKnewIsNotPaddedWithZeros) {
  write_file_atomically(path(), "{}\n");
  RunLog log(path(), 1000);
  log.write("resume", Json{{"step", 1}});
  EXPECT_EQ(content(), "{}\n{\"event\":\"resume\",\"step\":1}\n");
}

TEST_F(RunLogTest, WritesJsonWhateverTheValues) {
  RunLog log(path(), 0);
  log.write("train", Json{{"loss", NAN}, {"name", "caf\xE9"}});
  EXPECT_EQ(content(), "{\"event\":\"train\",\"loss\":null,\"name\":\"caf\xEF\xBF\xBD\"}\n");
}

TEST_F(RunLogTest, NamesTheFileThatCannotBeOpened) {
  EXPECT_THAT([this] { RunLog(folder_ / "missing" / "metrics.jsonl", 0); },
              ThrowsMessage<std::system_error>(HasSubstr("missing/metrics.jsonl")));
}

}  // namespace
}  // namespace finetune
