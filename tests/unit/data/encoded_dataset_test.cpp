#include <gmock/gmock.h>

#include <numeric>
#include <set>

#include "data/data_files.h"
#include "finetune/core/text.h"
#include "finetune/data/encoded_rows.h"

namespace finetune {
namespace {

using test::TemporaryFolder;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int32_t kCls = 1001;
constexpr int32_t kSep = 1002;

/// One token a byte, [CLS] text [SEP] (pair [SEP]); cuts the end of the first text, and refuses under
/// only_second.
class ByteTokenizer : public Tokenizer {
 public:
  RowShape append(std::string_view text, std::optional<std::string_view> pair, const EncodeOptions& options,
                  std::vector<int32_t>& ids) const override {
    RowShape shape;
    const size_t others = (pair ? pair->size() + 3 : 2);
    const auto limit = static_cast<size_t>(options.max_length);
    if (text.size() + others > limit) {
      if (options.truncation == TruncationStrategy::kOnlySecond || others > limit) {
        throw DataError("the row cannot be cut to max_length");
      }
      text = text.substr(0, limit - others);
      shape.truncated = true;
    }
    const size_t before = ids.size();
    ids.push_back(kCls);
    for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
    ids.push_back(kSep);
    shape.second_segment = static_cast<int64_t>(ids.size() - before);
    if (pair) {
      for (const char byte : *pair) ids.push_back(static_cast<unsigned char>(byte));
      ids.push_back(kSep);
    }
    shape.num_tokens = static_cast<int64_t>(ids.size() - before);
    return shape;
  }

  Encoding encode(std::string_view, std::optional<std::string_view>, const EncodeOptions&) const override {
    return {};
  }
  Encoding encode_plain(std::string_view) const override { return {}; }
  Encoding frame(const Encoding&, const EncodeOptions&) const override { return {}; }
  int64_t vocab_size() const override { return 1003; }
  std::string id_to_token(int32_t id) const override { return std::to_string(id); }
  std::optional<int32_t> token_to_id(std::string_view) const override { return std::nullopt; }
  int32_t pad_id() const override { return 0; }
  int64_t num_special_tokens(bool pair) const override { return pair ? 3 : 2; }
  std::string fingerprint() const override { return "bytes"; }
  void save(const std::filesystem::path&) const override {}
};

/// `count` rows: text i is i % 97 letters, label i % 3.
TextDataset numbered_rows(int64_t count) {
  TextDataset rows;
  rows.files = {"train.csv"};
  for (int64_t i = 0; i < count; ++i) {
    rows.texts.push_back(std::string(static_cast<size_t>(i % 97), static_cast<char>('a' + i % 26)));
    rows.labels.push_back(std::to_string(i % 3));
    rows.lines.push_back(i + 2);
    rows.file_index.push_back(0);
  }
  return rows;
}

TEST(EncodeDataset, RowsLieOneAfterAnother) {
  TextDataset rows = numbered_rows(3);
  rows.texts = {"ab", "", "c"};
  const EncodedDataset dataset = encode_dataset(rows, ByteTokenizer(), {}, LabelMap({"0", "1", "2"}), 1);
  EXPECT_THAT(dataset.input_ids, ElementsAre(kCls, 'a', 'b', kSep, kCls, kSep, kCls, 'c', kSep));
  EXPECT_THAT(dataset.row_offsets, ElementsAre(0, 4, 6, 9));
  EXPECT_THAT(dataset.second_segments, ElementsAre(4, 2, 3));
  EXPECT_THAT(dataset.labels, ElementsAre(0, 1, 2));
  EXPECT_EQ(dataset.num_rows(), 3);
  EXPECT_EQ(dataset.length(1), 2);
  EXPECT_EQ(dataset.num_truncated, 0);
}

TEST(EncodeDataset, PairsHaveASecondSegmentAndMissingLabelsAreIgnored) {
  TextDataset rows = numbered_rows(2);
  rows.texts = {"a", "b"};
  rows.pairs = {"xy", ""};
  rows.labels = {"", "1"};
  const EncodedDataset dataset = encode_dataset(rows, ByteTokenizer(), {}, LabelMap({"0", "1"}), 2, -7);
  EXPECT_THAT(dataset.input_ids, ElementsAre(kCls, 'a', kSep, 'x', 'y', kSep, kCls, 'b', kSep, kSep));
  EXPECT_THAT(dataset.second_segments, ElementsAre(3, 3));
  EXPECT_THAT(dataset.labels, ElementsAre(-7, 1));
  rows.labels = {};
  EXPECT_TRUE(encode_dataset(rows, ByteTokenizer(), {}, LabelMap(), 1).labels.empty());
}

TEST(EncodeDataset, ResultDoesNotDependOnThreads) {
  const TextDataset rows = numbered_rows(5'000);
  RowOptions options;
  options.max_length = 50;
  const LabelMap labels({"0", "1", "2"});
  const EncodedDataset one = encode_dataset(rows, ByteTokenizer(), options, labels, 1);
  int64_t expected_truncated = 0;
  for (const std::string& text : rows.texts) expected_truncated += text.size() > 48;
  EXPECT_EQ(one.num_truncated, expected_truncated);
  for (const int threads : {2, 3, 8, 100}) {
    const EncodedDataset many = encode_dataset(rows, ByteTokenizer(), options, labels, threads);
    EXPECT_EQ(many.input_ids, one.input_ids);
    EXPECT_EQ(many.row_offsets, one.row_offsets);
    EXPECT_EQ(many.second_segments, one.second_segments);
    EXPECT_EQ(many.labels, one.labels);
    EXPECT_EQ(many.num_truncated, one.num_truncated);
    EXPECT_EQ(many.fingerprint, one.fingerprint);
  }
}

TEST(EncodeDataset, FingerprintFollowsIdsOffsetsAndLabels) {
  const LabelMap labels({"0", "1", "2"});
  const auto fingerprint_of = [&](const TextDataset& rows) {
    return encode_dataset(rows, ByteTokenizer(), {}, labels, 1).fingerprint;
  };
  const TextDataset rows = numbered_rows(300);
  TextDataset other_text = rows;
  other_text.texts[200] += "x";
  TextDataset other_label = rows;
  other_label.labels = {};
  for (size_t row = 0; row < 300; ++row) other_label.labels.push_back(rows.labels[row == 200 ? 201 : row]);
  TextDataset other_segments = rows;
  other_segments.pairs.resize(300);
  const std::set<std::string> distinct = {fingerprint_of(rows), fingerprint_of(other_text),
                                          fingerprint_of(other_label), fingerprint_of(other_segments)};
  EXPECT_EQ(distinct.size(), 4u);
}

TEST(EncodeDataset, UnknownLabelNamesPlaceValueAndKnownLabels) {
  TextDataset rows = numbered_rows(4);
  rows.labels = {"ham", "spam", "spm", "egg"};
  try {
    encode_dataset(rows, ByteTokenizer(), {}, LabelMap({"ham", "spam"}), 2);
    FAIL();
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("train.csv:4: label 'spm' is not known"),
                                    HasSubstr("'ham', 'spam'"), HasSubstr("did you mean 'spam'?")));
  }
}

TEST(EncodeDataset, TheFirstRowThatCannotBeCutIsNamedWhateverTheThreads) {
  TextDataset rows = numbered_rows(4'000);
  rows.texts[1'700] = std::string(200, 'x');
  rows.texts[1'900] = std::string(200, 'x');
  rows.texts[3'900] = std::string(200, 'x');
  RowOptions options;
  options.max_length = 100;
  options.truncation = TruncationStrategy::kOnlySecond;
  for (const int threads : {1, 2, 4, 16}) {
    try {
      encode_dataset(rows, ByteTokenizer(), options, LabelMap({"0", "1", "2"}), threads);
      FAIL();
    } catch (const DataError& error) {
      EXPECT_STREQ(error.what(), "train.csv:1702: the row cannot be cut to max_length");
    }
  }
}

TEST(ReadDataset, FilesFollowEachOtherAndKeepTheirPlaces) {
  TemporaryFolder folder;
  const auto a = folder.write("a.csv", "text,label\none,x\n\"two\nlines\",y\nthree,x\n");
  const auto b = folder.write("b.jsonl", "{\"text\":\"four\",\"label\":\"z\"}\n");
  const TextDataset rows = read_dataset({a, b}, {}, LabelPresence::kRequired);
  EXPECT_THAT(rows.texts, ElementsAre("one", "two\nlines", "three", "four"));
  EXPECT_THAT(rows.labels, ElementsAre("x", "y", "x", "z"));
  EXPECT_TRUE(rows.pairs.empty());
  EXPECT_EQ(rows.place(2), a.string() + ":5");
  EXPECT_EQ(rows.place(3), b.string() + ":1");
}

TEST(ReadDataset, MaxRowsCountsOverAllFilesAndReadsNoFurther) {
  TemporaryFolder folder;
  const auto a = folder.write("a.csv", "text,label\none,x\ntwo,y\n");
  const auto b = folder.write("b.csv", "text,label\nthree,x\nbroken\n");
  EXPECT_THAT(read_dataset({a, b}, {}, LabelPresence::kRequired, 3).texts,
              ElementsAre("one", "two", "three"));
  EXPECT_THAT(read_dataset({a, folder.path() / "missing.csv"}, {}, LabelPresence::kRequired, 1).texts,
              ElementsAre("one"));
  EXPECT_THROW(read_dataset({a, b}, {}, LabelPresence::kRequired, 4), DataError);
}

TEST(ReadDataset, LabelsOfSomeRowsLeaveTheOthersEmpty) {
  TemporaryFolder folder;
  const auto a = folder.write("a.csv", "text\none\n");
  const auto b = folder.write("b.csv", "text,label\ntwo,x\nthree,\n");
  EXPECT_THAT(read_dataset({a, b}, {}, LabelPresence::kOptional).labels, ElementsAre("", "x", ""));
  EXPECT_TRUE(read_dataset({a}, {}, LabelPresence::kOptional).labels.empty());
}

TEST(ReadDataset, FolderRowsAreNamedByTheirFiles) {
  TemporaryFolder folder;
  folder.write("x/1.txt", "one");
  const auto second = folder.write("y/2.txt", "two");
  const TextDataset rows = read_dataset({folder.path()}, {}, LabelPresence::kRequired);
  EXPECT_THAT(rows.labels, ElementsAre("x", "y"));
  EXPECT_EQ(rows.place(1), second.string());
}

TEST(ReadDataset, ReplacedRowsAreCounted) {
  TemporaryFolder folder;
  DataConfig config;
  config.encoding = TextEncoding::kUtf8Replace;
  const auto path = folder.write("a.csv", "text,label\n\xFF,x\nfine,x\n\xFE,x\n");
  EXPECT_EQ(read_dataset({path, path}, config, LabelPresence::kRequired).num_replaced, 4);
}

TEST(ReadDataset, NoFileAtAllIsADataError) {
  EXPECT_THROW(read_dataset({}, {}, LabelPresence::kRequired), DataError);
}

TEST(SplitOff, IsAPartitionThatKeepsOrderAndPlaces) {
  TextDataset train = numbered_rows(1'000);
  train.pairs = train.texts;
  const TextDataset all = train;
  const TextDataset validation = split_off(train, 0.1, 42, false);
  EXPECT_EQ(validation.num_rows(), 100);
  EXPECT_EQ(train.num_rows(), 900);
  std::vector<int64_t> merged;
  std::merge(train.lines.begin(), train.lines.end(), validation.lines.begin(), validation.lines.end(),
             std::back_inserter(merged));
  EXPECT_EQ(merged, all.lines);
  for (int64_t row = 0; row < validation.num_rows(); ++row) {
    const auto i = static_cast<size_t>(row);
    const auto original = static_cast<size_t>(validation.lines[i] - 2);
    EXPECT_EQ(validation.texts[i], all.texts[original]);
    EXPECT_EQ(validation.pairs[i], all.pairs[original]);
    EXPECT_EQ(validation.labels[i], all.labels[original]);
    EXPECT_EQ(validation.place(row), all.place(static_cast<int64_t>(original)));
  }
}

/// A file of `count` rows that is larger than one piece of text.
std::filesystem::path write_many_rows(const TemporaryFolder& folder, int64_t count) {
  std::string content = "text,label\n";
  for (int64_t i = 0; i < count; ++i) {
    content += std::string(static_cast<size_t>(i % 97), static_cast<char>('a' + i % 26)) + ",c" +
               std::to_string(i % 5) + "\n";
  }
  return folder.write("many.csv", content);
}

TEST(EncodeFiles, IsReadingAndEncoding) {
  const TemporaryFolder folder;
  const auto many = write_many_rows(folder, 70'000);
  const auto other = folder.write("other.csv", "text,label\nlast,c1\n");
  RowOptions options;
  options.max_length = 60;
  for (const std::optional<int64_t> max_rows : {std::optional<int64_t>(), std::optional<int64_t>(66'000)}) {
    const TextDataset text = read_dataset({many, other}, {}, LabelPresence::kRequired, max_rows);
    const LabelMap labels = LabelMap::learn(text.labels);
    const EncodedDataset expected = encode_dataset(text, ByteTokenizer(), options, labels, 1);
    EncodedRows rows =
        encode_files({many, other}, {}, LabelPresence::kRequired, max_rows, ByteTokenizer(), options, 3);
    EXPECT_TRUE(rows.rows.texts.empty());
    EXPECT_EQ(rows.rows.num_rows(), text.num_rows());
    EXPECT_EQ(rows.rows.place(66'000 - 1), text.place(66'000 - 1));
    EXPECT_EQ(rows.rows.place(text.num_rows() - 1), text.place(text.num_rows() - 1));
    const EncodedDataset dataset = with_labels(std::move(rows), labels);
    EXPECT_EQ(dataset.fingerprint, expected.fingerprint);
    EXPECT_EQ(dataset.num_truncated, expected.num_truncated);
    EXPECT_GT(dataset.num_truncated, 0);
  }
}

TEST(EncodeFiles, HoldsOutTheRowsThatSplittingTextHoldsOut) {
  const TemporaryFolder folder;
  const auto file = write_many_rows(folder, 2'000);
  RowOptions options;
  options.max_length = 60;
  TextDataset text = read_dataset({file}, {}, LabelPresence::kRequired);
  const LabelMap labels = LabelMap::learn(text.labels);
  const TextDataset held_out_text = split_off(text, 0.3, 5, false);
  EncodedRows rows =
      encode_files({file}, {}, LabelPresence::kRequired, std::nullopt, ByteTokenizer(), options, 2);
  EncodedRows held_out = split_off(rows, 0.3, 5, false);
  using Pair = std::pair<EncodedRows*, const TextDataset*>;
  for (const auto& [encoded, source] : {Pair(&rows, &text), Pair(&held_out, &held_out_text)}) {
    const EncodedDataset expected = encode_dataset(*source, ByteTokenizer(), options, labels, 1);
    EXPECT_EQ(encoded->rows.place(100), source->place(100));
    const EncodedDataset dataset = with_labels(std::move(*encoded), labels);
    EXPECT_EQ(dataset.fingerprint, expected.fingerprint);
    EXPECT_EQ(dataset.num_truncated, expected.num_truncated);
  }
}

TEST(EncodeFiles, NamesTheRowThatCannotBeCutAndTheUnknownLabel) {
  const TemporaryFolder folder;
  const auto many = write_many_rows(folder, 70'000);
  const auto bad = folder.write("bad.csv", "text,label\nfine,c1\n" + std::string(200, 'x') + ",c9\n");
  RowOptions options;
  options.max_length = 100;
  options.truncation = TruncationStrategy::kOnlySecond;
  const auto encode = [&] {
    return encode_files({many, bad}, {}, LabelPresence::kRequired, std::nullopt, ByteTokenizer(), options, 2);
  };
  try {
    encode();
    FAIL();
  } catch (const DataError& error) {
    EXPECT_EQ(error.what(), bad.string() + ":3: the row cannot be cut to max_length");
  }
  options.truncation = TruncationStrategy::kOnlyFirst;
  try {
    with_labels(encode(), LabelMap({"c0", "c1", "c2", "c3", "c4"}));
    FAIL();
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), testing::StartsWith(bad.string() + ":3: label 'c9' is not known"));
  }
}

TEST(SplitOff, DependsOnTheSeedAndSpreadsOverTheRows) {
  const auto lines_for = [](uint64_t seed) {
    TextDataset train = numbered_rows(2'000);
    return split_off(train, 0.25, seed, false).lines;
  };
  EXPECT_EQ(lines_for(1), lines_for(1));
  EXPECT_NE(lines_for(1), lines_for(2));
  const auto lines = lines_for(3);
  const auto in_first_half =
      std::count_if(lines.begin(), lines.end(), [](int64_t line) { return line < 1'002; });
  EXPECT_NEAR(static_cast<double>(in_first_half), 250.0, 50.0);
}

/// Rows of these many of each class, one class after the other.
TextDataset rows_of_classes(const std::vector<int>& counts) {
  TextDataset rows;
  for (size_t label = 0; label < counts.size(); ++label) {
    for (int i = 0; i < counts[label]; ++i) {
      Row row;
      row.text = "t";
      row.label = "c" + std::to_string(label);
      row.line = rows.num_rows();
      rows.push_back(std::move(row), "a.csv");
    }
  }
  return rows;
}

std::vector<int64_t> held_out_of_each(TextDataset train, size_t num_classes, double fraction, uint64_t seed) {
  const TextDataset held_out = split_off(train, fraction, seed, true);
  std::vector<int64_t> counts(num_classes);
  for (size_t row = 0; row < held_out.labels.size(); ++row)
    ++counts[std::stoul(held_out.labels[row].substr(1))];
  return counts;
}

TEST(SplitOff, GivesEachClassItsShare) {
  using testing::ElementsAre;
  for (const uint64_t seed : {1u, 2u, 3u}) {
    EXPECT_THAT(held_out_of_each(rows_of_classes({100, 50, 10}), 3, 0.1, seed), ElementsAre(10, 5, 1));
    // 3 of 30 rows: the shares are 1.9, 0.9 and 0.2.
    EXPECT_THAT(held_out_of_each(rows_of_classes({19, 9, 2}), 3, 0.1, seed), ElementsAre(2, 1, 0));
    // A class keeps its last row, which training needs.
    EXPECT_THAT(held_out_of_each(rows_of_classes({4, 1, 1, 1}), 4, 0.5, seed), ElementsAre(3, 0, 0, 0));
  }
  TextDataset alone = rows_of_classes({1, 1, 1, 1});
  EXPECT_EQ(split_off(alone, 0.5, 1, true).num_rows(), 2) << "classes of one row cannot be divided";
}

TEST(SplitOff, OneClassIsDividedAsWithoutClasses) {
  TextDataset with = rows_of_classes({200}), without = with;
  EXPECT_EQ(split_off(with, 0.3, 7, true).lines, split_off(without, 0.3, 7, false).lines);
}

TEST(SplitOff, AtLeastOneRowGoesAndOneStays) {
  TextDataset train = numbered_rows(10);
  EXPECT_EQ(split_off(train, 0.001, 1, false).num_rows(), 1);
  EXPECT_EQ(split_off(train, 0.999, 1, false).num_rows(), 8);
  EXPECT_EQ(train.num_rows(), 1);
  EXPECT_THROW(split_off(train, 0.5, 1, false), DataError);
  EXPECT_THROW(split_off(train, 0.0, 1, false), ConfigError);
  EXPECT_THROW(split_off(train, 1.0, 1, false), ConfigError);
}

}  // namespace
}  // namespace finetune
