#include "finetune/report/result_text.h"

#include <gmock/gmock.h>

#include <sstream>

namespace finetune {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(MetricsTable, HasALineASplitAndAFile) {
  const Json one{{"loss", 0.25}, {"accuracy", 0.5}, {"macro_f1", 0.125}, {"per_class", {{"a", 1}}}};
  const Json metrics{{"test", one}, {"validation", {{"dev.csv", one}, {"old.csv", {{"loss", 2.0}}}}}};
  EXPECT_EQ(metrics_table(metrics),
            "                         loss   accuracy   macro F1\n"
            "test                   0.2500     0.5000     0.1250\n"
            "validation dev.csv     0.2500     0.5000     0.1250\n"
            "validation old.csv     2.0000          -          -\n");
  EXPECT_EQ(metrics_table(Json::object()), "");
}

TEST(ConfusionText, HasALineALabel) {
  EXPECT_EQ(confusion_text({{12, 0}, {3, 1234567}}, {"no", "yes"}, 80),
            "labels down, answers across\n"
            "         no     yes\n"
            "no       12       0\n"
            "yes       3 1234567\n");
}

TEST(ConfusionText, CutsLongNamesAndKnowsWideCharacters) {
  EXPECT_EQ(confusion_text({{1, 2}, {3, 4}}, {"猫", "a label with a very long name"}, 80),
            "labels down, answers across\n"
            "                               猫 a label with a .\n"
            "猫                              1                2\n"
            "a label with a .                3                4\n");
}

TEST(ConfusionText, FitsItsWidth) {
  for (const int size : {2, 5, 12, 13, 14, 77}) {
    std::vector<std::string> labels;
    Json confusion = Json::array();
    for (int row = 0; row < size; ++row) {
      labels.push_back("label number " + std::to_string(row));
      confusion.push_back(std::vector<int>(static_cast<size_t>(size), 1000 * row));
    }
    for (const std::string& line : lines_of(confusion_text(confusion, labels, 80))) {
      EXPECT_LE(line.size(), 80u) << size;
    }
  }
}

TEST(ConfusionText, NamesTheMostFrequentMistakesOfManyLabels) {
  const int size = 40;
  std::vector<std::string> labels;
  Json confusion = Json::array();
  for (int row = 0; row < size; ++row) {
    labels.push_back("l" + std::to_string(row));
    std::vector<int> counts(static_cast<size_t>(size), 0);
    counts[static_cast<size_t>(row)] = 100;
    counts[static_cast<size_t>((row + 1) % size)] = row;
    confusion.push_back(counts);
  }
  const auto lines = lines_of(confusion_text(confusion, labels, 80));
  ASSERT_EQ(lines.size(), 11u);
  EXPECT_EQ(lines[0], "most frequent mistakes, of 39 kinds");
  EXPECT_EQ(lines[1], "      39  l39 -> l0");
  EXPECT_EQ(lines[10], "      30  l30 -> l31");
}

TEST(ConfusionText, IsEmptyWithoutLabels) { EXPECT_EQ(confusion_text(Json::array(), {}, 80), ""); }

}  // namespace
}  // namespace finetune
