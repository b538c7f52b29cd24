#include "finetune/report/page.h"

#include <gmock/gmock.h>

#include <fstream>

#include "core/temporary_folder.h"
#include "finetune/core/file.h"
#include "finetune/report/run_record.h"

namespace finetune {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class PageTest : public TemporaryFolderTest {};

TEST(EscapeHtml, LeavesNoMarkup) {
  EXPECT_EQ(escape_html("<b onclick=\"f('&')\">"), "&lt;b onclick=&quot;f(&#39;&amp;&#39;)&quot;&gt;");
  EXPECT_EQ(escape_html("naïve 語"), "naïve 語");
}

TEST(JsonForScript, CannotEndItsElement) {
  const Json value{{"</script><script>alert(1)", "<!-- <script>"}};
  const std::string text = json_for_script(value);
  EXPECT_THAT(text, Not(HasSubstr("<")));
  EXPECT_EQ(Json::parse(text), value);
}

TEST(JsonForScript, ReplacesWhatIsNotUtf8) {
  EXPECT_EQ(Json::parse(json_for_script(Json("a\xff"))), Json("a\xEF\xBF\xBD"));
}

TEST_F(PageTest, HoldsTheRecordAndNothingFromElsewhere) {
  std::ofstream(folder_ / "metrics.jsonl") << R"({"event":"train","step":1,"loss":0.5})" << '\n';
  std::ofstream(folder_ / "summary.json") << R"({"status":"{{data}} </script><img src=x onerror=alert(1)>"})";
  write_report({folder_}, folder_ / "page.html");
  const std::string page = read_file(folder_ / "page.html");
  EXPECT_THAT(page, HasSubstr("<title>" + folder_.filename().string()));
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, Not(HasSubstr("src=\"http")));
  EXPECT_THAT(page, Not(HasSubstr("@import")));

  const std::string begin = "id=\"records\">";
  const size_t first = page.find(begin) + begin.size();
  const Json data = Json::parse(page.substr(first, page.find("</script>", first) - first));
  EXPECT_EQ(data["runs"][0]["train"]["loss"], Json({0.5}));
  EXPECT_EQ(data["runs"][0]["status"], "{{data}} </script><img src=x onerror=alert(1)>");
}

TEST_F(PageTest, OfARunThatGoesOnIsWrittenNowAndThen) {
  std::ofstream(folder_ / "metrics.jsonl") << R"({"event":"train","step":1,"loss":0.5})" << '\n';
  RunReport report(folder_, true);
  report.refresh();
  const std::string first = read_file(folder_ / "report.html");
  std::ofstream(folder_ / "metrics.jsonl", std::ios::app)
      << R"({"event":"train","step":2,"loss":0.25})" << '\n';
  report.refresh();  // at once: not due
  EXPECT_EQ(read_file(folder_ / "report.html"), first);
  report.finish();
  EXPECT_THAT(read_file(folder_ / "report.html"), HasSubstr("[0.5,0.25]"));
}

TEST_F(PageTest, IsNotWrittenWhereItIsTurnedOff) {
  std::ofstream(folder_ / "metrics.jsonl") << "{}\n";
  RunReport report(folder_, false);
  report.refresh();
  report.finish();
  EXPECT_FALSE(std::filesystem::exists(folder_ / "report.html"));
}

TEST_F(PageTest, ThatCannotBeWrittenDoesNotEndTheRun) {
  std::ofstream(folder_ / "metrics.jsonl") << "{}\n";
  std::filesystem::create_directory(folder_ / "report.html");
  RunReport report(folder_, true);
  report.refresh();
  report.finish();
  EXPECT_TRUE(std::filesystem::is_directory(folder_ / "report.html"));
}

}  // namespace
}  // namespace finetune
