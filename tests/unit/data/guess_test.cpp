#include "finetune/data/guess.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/data_files.h"

namespace finetune {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;

class GuessTest : public testing::Test {
 protected:
  Guess guess(const std::string& name, const std::string& content, const GuessHints& hints = {},
              const DataConfig& config = {}) {
    return guess_data(profile_table(folder_.write(name, content), config), hints);
  }
  std::string error(const std::string& name, const std::string& content, const GuessHints& hints = {}) {
    try {
      guess(name, content, hints);
    } catch (const DataError& error) {
      return error.what();
    }
    return "";
  }

  /// `count` lines made by `line(i)`, after a header.
  template <typename Line>
  static std::string lines(const std::string& header, int count, Line line) {
    std::string text = header.empty() ? "" : header + "\n";
    for (int i = 0; i < count; ++i) text += line(i) + "\n";
    return text;
  }

  test::TemporaryFolder folder_;
};

std::string sentence(int i) { return "this is sentence number " + std::to_string(i) + " of some words"; }

TEST_F(GuessTest, TextAndLabelByNameAndValues) {
  const Guess by_name = guess("a.csv", lines("id,text,label", 40, [](int i) {
                                return std::to_string(i) + "," + sentence(i) + "," + (i % 2 ? "pos" : "neg");
                              }));
  EXPECT_EQ(by_name.task, TaskType::kSequenceClassification);
  EXPECT_EQ(by_name.data.text.name, "text");
  EXPECT_EQ(by_name.data.label.name, "label");
  EXPECT_EQ(by_name.data.text_pair, std::nullopt);
  EXPECT_THAT(by_name.labels, ElementsAre(Pair("neg", 20), Pair("pos", 20)));
  EXPECT_THAT(by_name.doubts, IsEmpty());

  const Guess by_values =
      guess("b.csv",
            lines("wares,was_bought", 40, [](int i) { return sentence(i) + "," + (i % 3 ? "yes" : "no"); }));
  EXPECT_EQ(by_values.data.text.name, "wares");
  EXPECT_EQ(by_values.data.label.name, "was_bought");
  EXPECT_THAT(by_values.reasons, Contains(HasSubstr("2 different values in 40 rows")));
}

TEST_F(GuessTest, DelimiterAndMissingHeader) {
  const Guess semicolons = guess("a.csv", lines("text;label", 30, [](int i) {
                                   return "one, two, three " + std::to_string(i) + ";" + (i % 2 ? "a" : "b");
                                 }));
  EXPECT_EQ(semicolons.data.delimiter, ';');
  EXPECT_EQ(semicolons.data.label.name, "label");

  const Guess bare =
      guess("b.tsv", lines("", 30, [](int i) { return std::to_string(i % 2) + "\t" + sentence(i); }));
  EXPECT_EQ(bare.data.header, HeaderMode::kAbsent);
  EXPECT_EQ(bare.data.label, (ColumnName{"", 0}));
  EXPECT_EQ(bare.data.text, (ColumnName{"", 1}));
  EXPECT_EQ(bare.labels.front().second, 15);  // the first row is a row
}

TEST_F(GuessTest, PairsByNameOrByTwoTexts) {
  const auto rows = [](const std::string& header) {
    return lines(header, 30,
                 [](int i) { return sentence(i) + "," + sentence(100 + i) + "," + (i % 2 ? "x" : "y"); });
  };
  const Guess named = guess("a.csv", rows("premise,hypothesis,label"));
  EXPECT_EQ(named.data.text.name, "premise");
  EXPECT_EQ(named.data.text_pair, (ColumnName{"hypothesis", {}}));
  EXPECT_THAT(named.doubts, IsEmpty());
  const Guess similar = guess("b.csv", rows("left,right,label"));
  EXPECT_TRUE(similar.data.text_pair.has_value());
  EXPECT_THAT(similar.doubts, Contains(HasSubstr("set data.text_pair to null")));
}

TEST_F(GuessTest, AnotherColumnOfTextsIsNoPairBesideOneCalledText) {
  const Guess one = guess("a.csv", lines("text,remark,label", 30, [](int i) {
                            return sentence(i) + "," + sentence(i + 50) + "," + (i % 2 ? "x" : "y");
                          }));
  EXPECT_EQ(one.data.text.name, "text");
  EXPECT_EQ(one.data.text_pair, std::nullopt);
  EXPECT_THAT(one.doubts, Contains(HasSubstr("'remark' holds texts too")));
}

TEST_F(GuessTest, RegressionByFractionsAndClassesByWholeNumbers) {
  const Guess values = guess(
      "a.csv", lines("text,score", 40, [](int i) { return sentence(i) + "," + std::to_string(i * 0.13); }));
  EXPECT_EQ(values.task, TaskType::kRegression);
  EXPECT_THAT(values.labels, IsEmpty());
  const Guess stars =
      guess("b.csv",
            lines("review,stars", 40, [](int i) { return sentence(i) + "," + std::to_string(1 + i % 5); }));
  EXPECT_EQ(stars.task, TaskType::kSequenceClassification);
  EXPECT_EQ(stars.data.label.name, "stars");
  EXPECT_THAT(stars.doubts, Contains(HasSubstr("set task.type to regression")));
}

TEST_F(GuessTest, SeveralLabelsBySeparatorsOrLists) {
  const char* const names[] = {"red",        "green",    "blue",           "green|red",
                               "blue|green", "red|blue", "blue|green|red", "blue|red"};
  const Guess fields =
      guess("a.csv", lines("text,labels", 60, [&](int i) { return sentence(i) + "," + names[i % 8]; }));
  EXPECT_EQ(fields.task, TaskType::kMultiLabelClassification);
  EXPECT_EQ(fields.data.label_separator, "|");
  EXPECT_EQ(fields.labels.size(), 3u);
  const Guess lists = guess("b.jsonl", lines("", 20, [](int i) {
                              return R"({"text": ")" + sentence(i) + R"(", "labels": [)" +
                                     (i % 2 ? R"("a", "b")" : R"("c")") + "]}";
                            }));
  EXPECT_EQ(lists.task, TaskType::kMultiLabelClassification);
  EXPECT_THAT(lists.labels, ElementsAre(Pair("a", 10), Pair("b", 10), Pair("c", 10)));
}

TEST_F(GuessTest, ACommaInAClassNameIsNoList) {
  const Guess names = guess("a.csv", lines("text,label", 60, [](int i) {
                              return sentence(i) + (i % 2 ? R"(,"Congo, Republic")" : ",Chad");
                            }));
  EXPECT_EQ(names.task, TaskType::kSequenceClassification);
}

TEST_F(GuessTest, TagsByConllOrTwoListsOfOneLength) {
  const Guess conll = guess("a.conll", "Ada B-PER\nslept O\n\nParis B-LOC\n\nHe O\nran O\n");
  EXPECT_EQ(conll.task, TaskType::kTokenClassification);
  EXPECT_EQ(conll.data.tokens, (ColumnName{"tokens", {}}));
  EXPECT_THAT(conll.labels, ElementsAre(Pair("O", 3), Pair("B-LOC", 1), Pair("B-PER", 1)));
  const Guess lists = guess("b.jsonl", lines("", 20, [](int i) {
                              return R"({"id": )" + std::to_string(i) + R"(, "words": ["word)" +
                                     std::to_string(i) + R"(", "and"], "ner_tags": ["B-X", "O"]})";
                            }));
  EXPECT_EQ(lists.task, TaskType::kTokenClassification);
  EXPECT_EQ(lists.data.tokens, (ColumnName{"words", {}}));
  EXPECT_EQ(lists.data.label.name, "ner_tags");
}

TEST_F(GuessTest, FieldsAndPlacesOfAText) {
  const Guess fields = guess("a.jsonl", lines("", 20, [](int i) {
                               return R"({"text": ")" + sentence(i) + R"(", "columns": ["sales per month )" +
                                      std::to_string(i) +
                                      R"(", "name of the shop"], "labels": ["number", "text"]})";
                             }));
  EXPECT_EQ(fields.data.fields, (ColumnName{"columns", {}}));
  EXPECT_EQ(fields.data.text.name, "text");
  const Guess places =
      guess("b.jsonl", lines("", 20, [](int i) {
              return R"({"text": ")" + sentence(i) + R"(", "at": [1, 3], "labels": ["a", "b"]})";
            }));
  EXPECT_EQ(places.data.positions, (ColumnName{"at", {}}));
}

TEST_F(GuessTest, FoldersHaveTheirClassesAsNames) {
  for (int i = 0; i < 4; ++i)
    folder_.write("texts/" + std::string(i % 2 ? "good" : "bad") + "/" + std::to_string(i), sentence(i));
  const Guess guess = guess_data(profile_table(folder_.path() / "texts", {}), {});
  EXPECT_EQ(guess.data.format, DataFormat::kFolder);
  EXPECT_THAT(guess.labels, ElementsAre(Pair("bad", 2), Pair("good", 2)));
}

TEST_F(GuessTest, HintsWin) {
  const std::string rows = lines("text,label,mood", 40, [](int i) {
    return sentence(i) + "," + (i % 2 ? "a" : "b") + "," + (i % 3 ? "good" : "bad");
  });
  const Guess unsure = guess("a.csv", rows);
  EXPECT_EQ(unsure.data.label.name, "label");
  GuessHints hints;
  hints.label = ColumnName{"mood", {}};
  EXPECT_EQ(guess("b.csv", rows, hints).data.label.name, "mood");
  hints.label = ColumnName{"moods", {}};
  EXPECT_THAT(error("c.csv", rows, hints),
              AllOf(HasSubstr("no column 'moods' (did you mean 'mood'?)"), HasSubstr("--label NAME")));
}

TEST_F(GuessTest, TwoLikelyLabelsAreADoubt) {
  const Guess unsure =
      guess("a.csv", lines("text,topic,mood", 40, [](int i) {
              return sentence(i) + "," + (i % 2 ? "a" : "b") + "," + (i % 3 ? "good" : "bad");
            }));
  EXPECT_THAT(unsure.doubts,
              Contains(AllOf(HasSubstr("may as well be column 'mood'"), HasSubstr("set data.label"))));
}

TEST_F(GuessTest, WhatHasNoLabelOrTextIsRefused) {
  EXPECT_THAT(
      error("a.csv", lines("text,more", 40, [](int i) { return sentence(i) + "," + sentence(i + 100); })),
      AllOf(HasSubstr("no column looks like a label"), HasSubstr("'text', 'more'"),
            HasSubstr("--label NAME")));
  EXPECT_THAT(error("b.csv", lines("x,label", 40,
                                   [](int i) { return std::to_string(i) + "," + (i % 2 ? "a" : "b"); })),
              AllOf(HasSubstr("no column looks like a text"), HasSubstr("--text NAME")));
}

TEST_F(GuessTest, RowsWithoutALabelAreADoubt) {
  const Guess guess_ = guess("a.csv", lines("text,label", 40, [](int i) {
                               return sentence(i) + "," + (i == 7 ? "" : i % 2 ? "a" : "b");
                             }));
  EXPECT_THAT(guess_.doubts, Contains(HasSubstr("1 rows have no label")));
}

TEST(ProfileTable, LargeFilesAreReadInPart) {
  test::TemporaryFolder folder;
  std::string text = "text,label\n";
  for (int64_t i = 0; i < TableProfile::kMostRows + 10; ++i) text += "some words here,a\n";
  const TableProfile table = profile_table(folder.write("a.csv", text), {});
  EXPECT_FALSE(table.whole);
  EXPECT_EQ(table.num_rows, TableProfile::kMostRows);
}

TEST(ProfileTable, LinesThatAreNoObjectsAreNamed) {
  test::TemporaryFolder folder;
  try {
    profile_table(folder.write("a.json", "[{\"text\": 1}]\n"), {});
    FAIL();
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("a.json:1"), HasSubstr("jq -c '.[]'")));
  }
}

TEST(ValueCounts, StopAtTheirMost) {
  ValueCounts counts;
  for (size_t i = 0; i < ValueCounts::kMostValues + 5; ++i) counts.add(std::to_string(i));
  counts.add("0");
  EXPECT_TRUE(counts.overflowed());
  EXPECT_EQ(counts.distinct(), ValueCounts::kMostValues);
  EXPECT_EQ(counts.count("0"), 2);
}

}  // namespace
}  // namespace finetune
