#include "finetune/data/inspection.h"

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

Inspection::Options plain() {
  Inspection::Options options;
  options.num_samples = 0;
  return options;
}

TEST(Inspection, CountsRowsLengthsAndLabels) {
  test::TemporaryFolder folder;
  Inspection inspection(plain());
  inspection.add_file("train",
                      folder.write("a.csv", "text,label\none two,a\none two three,b\n  ,a\nfour,\n"));
  const SplitReport rows = inspection.finish().splits.front();
  EXPECT_EQ(rows.rows, 4);
  EXPECT_EQ(rows.empty_texts, 1);
  EXPECT_EQ(rows.lengths.longest, 3);
  EXPECT_DOUBLE_EQ(rows.lengths.mean, 1.5);
  EXPECT_FALSE(rows.lengths.in_tokens);
  EXPECT_THAT(rows.labels.counts, ElementsAre(Pair("a", 2), Pair("b", 1)));
  EXPECT_EQ(rows.labels.unlabelled, 1);
}

TEST(Inspection, TruncationAtEachLimit) {
  test::TemporaryFolder folder;
  std::string text = "text,label\n";
  for (int words : {1, 64, 65, 129, 600}) {
    for (int i = 0; i < words; ++i) text += "w ";
    text += ",a\n";
  }
  Inspection::Options options = plain();
  options.max_length = 100;
  Inspection inspection(options);
  inspection.add_file("train", folder.write("a.csv", text));
  const LengthReport lengths = inspection.finish().splits.front().lengths;
  EXPECT_THAT(lengths.longer_than,
              ElementsAre(Pair(64, 3), Pair(100, 2), Pair(128, 2), Pair(256, 1), Pair(512, 1)));
  EXPECT_EQ(lengths.median, 65);
  EXPECT_EQ(lengths.covering(0.8), 129);
}

TEST(Inspection, DuplicatesAndConflicts) {
  test::TemporaryFolder folder;
  Inspection inspection(plain());
  inspection.add_file(
      "train", folder.write("a.csv", "text,label\nsame  text,a\nother,b\n same text,a\nother,a\nthird,a\n"));
  const DuplicateReport report = inspection.finish().splits.front().duplicates;
  EXPECT_EQ(report.repeated, 2);
  EXPECT_EQ(report.conflicting, 2);
  ASSERT_EQ(report.conflicts.size(), 1u);
  EXPECT_THAT(report.conflicts[0].first, testing::EndsWith("a.csv:3"));
  EXPECT_THAT(report.conflicts[0].second, testing::EndsWith("a.csv:5"));
}

TEST(Inspection, LeaksFromOneSplitIntoAnother) {
  test::TemporaryFolder folder;
  Inspection inspection(plain());
  inspection.add_file("train", folder.write("a.csv", "text,label\none,a\ntwo,b\nthree,a\n"));
  inspection.add_file("test", folder.write("b.csv", "text,label\ntwo,b\nthree,b\nfour,c\nthree,b\n"));
  const InspectionReport report = inspection.finish();
  ASSERT_EQ(report.leaks.size(), 1u);
  EXPECT_EQ(report.leaks[0].from, "train");
  EXPECT_EQ(report.leaks[0].into, "test");
  EXPECT_EQ(report.leaks[0].rows, 3);
  EXPECT_EQ(report.leaks[0].other_label, 2);
  EXPECT_THAT(report.warnings, ElementsAre(AllOf(HasSubstr("test has labels"), HasSubstr("'c'"))));
  EXPECT_THAT(to_text(report), HasSubstr("leak: 3 rows of test"));
}

TEST(Inspection, FilesOfASplitAreNoLeak) {
  test::TemporaryFolder folder;
  Inspection inspection(plain());
  inspection.add_file("train", folder.write("a.csv", "text,label\none,a\n"));
  inspection.add_file("train", folder.write("b.csv", "text,label\none,a\n"));
  const InspectionReport report = inspection.finish();
  EXPECT_THAT(report.leaks, IsEmpty());
  EXPECT_EQ(report.splits.size(), 1u);
  EXPECT_EQ(report.splits[0].duplicates.repeated, 1);
}

// Memory stays bounded: of many rows a share is compared, and copies stay together.
TEST(Inspection, EstimatesFromAShareOfManyRows) {
  test::TemporaryFolder folder;
  std::string text = "text,label\n";
  for (int copy = 0; copy < 2; ++copy) {
    for (int i = 0; i < 20'000; ++i) text += "row number " + std::to_string(i) + ",a\n";
  }
  Inspection::Options options = plain();
  options.max_compared = 4'000;
  Inspection inspection(options);
  inspection.add_file("train", folder.write("a.csv", text));
  const InspectionReport report = inspection.finish();
  EXPECT_LT(report.compared, 0.2);
  EXPECT_GT(report.compared, 0.02);
  EXPECT_NEAR(static_cast<double>(report.splits[0].duplicates.repeated), 20'000, 2'000);
  EXPECT_THAT(to_text(report), HasSubstr("are estimated from"));
}

TEST(Inspection, NumbersAndSeveralLabels) {
  test::TemporaryFolder folder;
  Inspection::Options options = plain();
  options.shape = options.data.label_shape = LabelShape::kValue;
  Inspection values(options);
  values.add_file("train", folder.write("a.csv", "text,label\none,1\ntwo,2\nthree,3\nfour,x\n"));
  const LabelReport numbers = values.finish().splits[0].labels;
  EXPECT_EQ(numbers.numbers, 3);
  EXPECT_EQ(numbers.not_numbers, 1);
  EXPECT_DOUBLE_EQ(numbers.mean, 2);
  EXPECT_NEAR(numbers.deviation, 0.8165, 1e-4);
  EXPECT_EQ(numbers.highest, 3);

  options.shape = options.data.label_shape = LabelShape::kClasses;
  options.data.label_separator = "|";
  Inspection classes(options);
  classes.add_file("train", folder.write("b.csv", "text,label\none,a|b\none,b|a\ntwo,a\n"));
  const SplitReport split = classes.finish().splits[0];
  EXPECT_THAT(split.labels.counts, ElementsAre(Pair("a", 3), Pair("b", 2)));
  EXPECT_EQ(split.duplicates.conflicting, 0);  // the order of labels tells nothing
}

TEST(SuspiciousLabels, SpellingsSlipsAndSingles) {
  using Counts = std::vector<std::pair<std::string, int64_t>>;
  EXPECT_THAT(suspicious_labels(Counts{{"Good", 40}, {"good ", 30}}, "label", false),
              ElementsAre(HasSubstr("differ in case, blanks or marks alone: 'Good' (40), 'good ' (30)")));
  EXPECT_THAT(suspicious_labels(Counts{{"business", 200}, {"sport", 100}, {"busines", 3}}, "label", false),
              Contains(HasSubstr("'busines' (3) may be a slip for 'business' (200)")));
  EXPECT_THAT(suspicious_labels(Counts{{"a", 5}, {"b", 1}}, "label", false),
              Contains(HasSubstr("1 class of one row: 'b'")));
  EXPECT_THAT(suspicious_labels(Counts{{"a", 5}, {"b", 5}, {"label", 2}}, "label", false),
              Contains(HasSubstr("header")));
  EXPECT_THAT(suspicious_labels(Counts{{"a", 500}, {"b", 5}}, "label", false),
              Contains(HasSubstr("macro_f1")));
}

TEST(SuspiciousLabels, WhatIsAsItShouldBe) {
  using Counts = std::vector<std::pair<std::string, int64_t>>;
  EXPECT_THAT(suspicious_labels(Counts{{"1", 4}, {"-1", 4}, {"C", 4}, {"C++", 4}}, "label", false),
              IsEmpty());
  EXPECT_THAT(suspicious_labels(Counts{{"B-PER", 9}, {"I-PER", 8}}, "tags", true), IsEmpty());
}

}  // namespace
}  // namespace finetune
