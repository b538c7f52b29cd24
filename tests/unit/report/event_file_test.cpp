#include "finetune/report/event_file.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>

#include "core/temporary_folder.h"

namespace finetune {
namespace {

class EventFileTest : public TemporaryFolderTest {
 protected:
  std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) found.push_back(entry.path());
    std::sort(found.begin(), found.end());
    return found;
  }
};

TEST(Crc32c, IsCastagnolis) {
  // RFC 3720, B.4.
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(crc32c(""), 0U);
}

TEST(TfRecord, FramesAPayload) {
  const std::string record = tf_record("abc");
  ASSERT_EQ(record.size(), 8u + 4 + 3 + 4);
  EXPECT_EQ(record.substr(0, 8), std::string("\3\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(record.substr(12, 3), "abc");
  EXPECT_NE(record.substr(15), tf_record("abd").substr(15));
}

TEST_F(EventFileTest, HoldsScalarsOfEventsAndNothingElse) {
  EventFile file(folder_, std::nullopt);
  const auto size = [&] { return std::filesystem::file_size(files().front()); };
  const auto before = size();
  file.write("save", Json{{"step", 3}, {"seconds", 0.5}});
  EXPECT_EQ(size(), before);
  file.write("train", Json{{"step", 300}, {"loss", 0.5}, {"device", "cpu"}, {"grad_norm", nullptr}});
  const std::string content = read_file(files().front());
  EXPECT_GT(size(), before);
  EXPECT_NE(content.find("train/loss"), std::string::npos);
  EXPECT_EQ(content.find("grad_norm"), std::string::npos);
  EXPECT_EQ(content.find("device"), std::string::npos);
}

TEST_F(EventFileTest, IsAFileOfItsOwnAfterEachResume) {
  { EventFile file(folder_, std::nullopt); }
  { EventFile file(folder_, 7); }
  EXPECT_EQ(files().size(), 2u);
  std::ofstream(folder_ / "events.txt") << "mine";
  remove_event_files(folder_);
  ASSERT_EQ(files().size(), 1u);
  EXPECT_EQ(files().front().filename(), "events.txt");
}

}  // namespace
}  // namespace finetune
