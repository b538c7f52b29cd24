#include "finetune/data/row_reader.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "data/data_files.h"

namespace finetune {
namespace {

using test::by_name;
using test::by_number;
using test::read_error;
using test::read_pairs;
using test::read_rows;
using test::TemporaryFolder;
using testing::AllOf;
using testing::HasSubstr;
using Pairs = std::vector<std::vector<std::string>>;

TEST(OpenRows, MissingFileNamesFolderAndNearestName) {
  TemporaryFolder folder;
  folder.write("train.csv", "text,label\n");
  EXPECT_THAT(read_error(folder.path() / "trian.csv"),
              AllOf(HasSubstr("trian.csv: no such file"), HasSubstr("looked in " + folder.path().string()),
                    HasSubstr("did you mean 'train.csv'?")));
  EXPECT_THAT(read_error(folder.path() / "sub" / "train.csv"),
              HasSubstr("its folder " + (folder.path() / "sub").string() + " does not exist"));
}

TEST(OpenRows, FolderAndFileAreNotTakenForEachOther) {
  TemporaryFolder folder;
  const auto file = folder.write("sub/train.csv", "text,label\na,b\n");
  DataConfig config;
  config.format = DataFormat::kCsv;
  EXPECT_THAT(read_error(folder.path(), config), HasSubstr("is a folder, expected a file"));
  config.format = DataFormat::kFolder;
  EXPECT_THAT(read_error(file, config), HasSubstr("is a file, but data.format is \"folder\""));
}

TEST(OpenRows, FormatComesFromTheName) {
  TemporaryFolder folder;
  EXPECT_EQ(read_pairs(folder.write("a.CSV", "text,label\na,pos\n")), (Pairs{{"a", "pos"}}));
  EXPECT_EQ(read_pairs(folder.write("a.tab", "text\tlabel\na\tpos\n")), (Pairs{{"a", "pos"}}));
  EXPECT_EQ(read_pairs(folder.write("a.ndjson", R"({"text":"a","label":"pos"})")), (Pairs{{"a", "pos"}}));
  const auto other = folder.write("a.dat", "text;label\na;pos\n");
  EXPECT_THAT(read_error(other), AllOf(HasSubstr("extension '.dat'"), HasSubstr("set data.format")));
  DataConfig config;
  config.delimiter = ';';
  EXPECT_EQ(read_pairs(other, config), (Pairs{{"a", "pos"}}));
}

TEST(OpenRows, TablesOfOtherProgramsAreAnsweredWithTheCommandThatConvertsThem) {
  TemporaryFolder folder;
  const auto path = folder.write("my train.parquet", "PAR1\x15");
  const std::string target = (folder.path() / "my train.jsonl").string();
  EXPECT_THAT(read_error(path),
              AllOf(HasSubstr("is a Parquet file"),
                    HasSubstr("python3 -c \"import sys, pandas; "
                              "pandas.read_parquet(sys.argv[1]).to_json("),
                    HasSubstr("\" '" + path.string() + "' '" + target + "' (pip install pandas pyarrow)")));
  EXPECT_THAT(read_error(folder.write("a.feather", "ARROW1")), HasSubstr("read_feather"));
  EXPECT_THAT(read_error(folder.write("a.arrow", "ARROW1")), HasSubstr("read_feather"));
  EXPECT_THAT(read_error(folder.write("b.arrow", "\xFF\xFF\xFF\xFF")), HasSubstr("ipc.open_stream"));
  EXPECT_THAT(read_error(folder.write("a.XLSX", "PK\x03\x04")),
              AllOf(HasSubstr("read_excel"), HasSubstr("a.csv (")));
}

TEST(OpenRows, FoldersThatDatasetsSavedAreAnsweredTheSameWay) {
  TemporaryFolder folder;
  folder.write("all/train/dataset_info.json", "{}");
  folder.write("all/train/data-00000-of-00001.arrow", "\xFF\xFF\xFF\xFF");
  folder.write("all/dataset_dict.json", "{}");
  EXPECT_THAT(read_error(folder.path() / "all" / "train" / ""),
              AllOf(HasSubstr("datasets.load_from_disk(sys.argv[1]).to_json("),
                    HasSubstr("all/train.jsonl (pip install datasets)")));
  EXPECT_THAT(read_error(folder.path() / "all"), HasSubstr("name one of the folders in it"));
}

TEST(OpenRows, TheyAreKnownByTheirFirstBytesToo) {
  TemporaryFolder folder;
  DataConfig config;
  config.format = DataFormat::kCsv;
  EXPECT_THAT(read_error(folder.write("a.dat", "PAR1\x15"), config),
              HasSubstr("a.dat " + (folder.path() / "a.jsonl").string()));
  EXPECT_THAT(read_error(folder.write("b.xlsx", "PK\x03\x04"), config), HasSubstr("is a spreadsheet"));
  EXPECT_THAT(read_error(folder.write("c.csv", "\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1"), config),
              HasSubstr("is a spreadsheet"));
  EXPECT_THAT(read_error(folder.write("d.csv", "\xFF\xFF\xFF\xFF\x10\0")), HasSubstr("is an Arrow stream"));
}

TEST(OpenRows, FileThatCannotBeOpenedIsADataError) {
  // A socket: opening it fails for everybody, root included.
  TemporaryFolder folder;
  const std::string path = (folder.path() / "a.csv").string();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path.size(), sizeof(address.sun_path));
  path.copy(address.sun_path, path.size());
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_THAT(read_error(path), HasSubstr("a.csv: cannot be opened: No such device or address"));
  ::close(descriptor);
}

TEST(OpenRows, NameThatIsTooLongIsADataError) {
  EXPECT_THAT(read_error(std::string(5000, 'x') + ".csv"), HasSubstr("cannot be opened: File name too long"));
}

TEST(JsonlReader, LabelsOfEveryScalarKindBecomeText) {
  TemporaryFolder folder;
  const auto path =
      folder.write("a.jsonl",
                   "{\"label\": \"pos\", \"text\": \"a\", \"more\": {\"text\": [\"inner\"]}}\r\n"
                   "\n"
                   "{\"text\": \"b\", \"label\": 3}\n"
                   "{\"text\": \"c\", \"label\": -1}\n"
                   "{\"text\": \"d\", \"label\": true}\n"
                   "{\"text\": \"\", \"label\": 0.5}");
  EXPECT_EQ(read_pairs(path), (Pairs{{"a", "pos"}, {"b", "3"}, {"c", "-1"}, {"d", "true"}, {"", "0.5"}}));
  EXPECT_EQ(read_rows(path)[1].line, 3);
}

TEST(JsonlReader, PairsAndMissingLabels) {
  TemporaryFolder folder;
  DataConfig config;
  config.text_pair = by_name("b");
  config.text = by_name("a");
  const auto path =
      folder.write("a.jsonl", "{\"a\":\"1\",\"b\":\"2\",\"label\":null}\n{\"b\":\"\",\"a\":\"3\"}\n");
  const auto rows = read_rows(path, config, LabelPresence::kOptional);
  EXPECT_EQ(rows[0].text, "1");
  EXPECT_EQ(rows[0].text_pair, "2");
  EXPECT_FALSE(rows[0].label);
  EXPECT_EQ(rows[1].text, "3");
  EXPECT_EQ(rows[1].text_pair, "");
  EXPECT_FALSE(rows[1].label);
  EXPECT_THAT(read_error(path, config), HasSubstr("a.jsonl:1: key 'label' is empty"));
}

TEST(JsonlReader, BadLinesAreNamed) {
  TemporaryFolder folder;
  const auto error_of = [&](const std::string& second_line) {
    return read_error(folder.write("a.jsonl", "{\"text\":\"a\",\"label\":\"b\"}\n" + second_line + "\n"));
  };
  EXPECT_THAT(error_of("{\"text\": \"a\","),
              AllOf(HasSubstr("a.jsonl:2: not JSON at byte"), HasSubstr("jq -c .")));
  EXPECT_THAT(error_of("{\"text\":\"a\",\"label\":\"b\"} {}"), HasSubstr("a.jsonl:2: not JSON at byte 26"));
  EXPECT_THAT(error_of("[1, 2]"), AllOf(HasSubstr("a.jsonl:2: found a list"), HasSubstr("jq -c '.[]'")));
  EXPECT_THAT(error_of("["), HasSubstr("a.jsonl:2: found a list"));
  EXPECT_THAT(error_of("17"), HasSubstr("a.jsonl:2: found a number, expected one JSON object"));
  EXPECT_THAT(error_of("{\"txt\":\"a\",\"label\":\"b\"}"),
              AllOf(HasSubstr("a.jsonl:2: no key 'text'; the object has: 'txt', 'label'"),
                    HasSubstr("did you mean 'txt'?"), HasSubstr("data.text")));
  EXPECT_THAT(error_of("{\"text\":[\"a\"],\"label\":\"b\"}"),
              HasSubstr("a.jsonl:2: key 'text' is a list, expected a string"));
  EXPECT_THAT(error_of("{\"text\":null,\"label\":\"b\"}"),
              HasSubstr("key 'text' is null, expected a string"));
  EXPECT_THAT(error_of("{\"text\":\"a\",\"label\":{\"b\":1}}"),
              HasSubstr("key 'label' is an object, expected a string, a number"));
  EXPECT_THAT(error_of("{\"text\":\"a\",\"label\":\"\"}"), HasSubstr("a.jsonl:2: key 'label' is empty"));
  EXPECT_THAT(error_of("{\"text\":\"a\",\"label\":\"b\",\"text\":\"c\"}"),
              HasSubstr("a.jsonl:2: key 'text' twice"));
}

TEST(JsonlReader, DeepNestingIsPassedOver) {
  TemporaryFolder folder;
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  const auto path = folder.write("a.jsonl", "{\"text\":\"a\",\"x\":" + deep + ",\"label\":\"b\"}");
  EXPECT_EQ(read_pairs(path), (Pairs{{"a", "b"}}));
}

TEST(JsonlReader, EmptyFileAndColumnsByNumber) {
  TemporaryFolder folder;
  EXPECT_THAT(read_error(folder.write("a.jsonl", "")), HasSubstr("a.jsonl: empty file"));
  DataConfig config;
  config.text = by_number(0);
  EXPECT_THAT(read_error(folder.write("b.jsonl", "{}"), config), HasSubstr("data.text is the number 0"));
  config.text = by_name("label");
  EXPECT_THAT(read_error(folder.write("b.jsonl", "{}"), config),
              HasSubstr("data.label is 'label', which another column is too"));
}

TEST(FolderReader, ClassesAndFilesComeSorted) {
  TemporaryFolder folder;
  folder.write("sport/b.txt", "two\n");
  folder.write("sport/a.txt",
               "\xEF\xBB\xBF"
               "one, \"quoted\"\r\nsecond line");
  folder.write("art/z.txt", "");
  folder.write("sport/.DS_Store", "\0\1\2\3");
  folder.write(".git/config", "x");
  folder.write("README.txt", "about");
  EXPECT_EQ(read_pairs(folder.path()),
            (Pairs{{"", "art"}, {"one, \"quoted\"\r\nsecond line", "sport"}, {"two\n", "sport"}}));

  const auto reader = open_rows(folder.path(), {}, LabelPresence::kRequired);
  Row row;
  ASSERT_TRUE(reader->next(row) && reader->next(row));
  EXPECT_EQ(reader->file(), folder.path() / "sport" / "a.txt");
  EXPECT_EQ(row.line, 0);
}

TEST(FolderReader, BadBytesNameTheFile) {
  TemporaryFolder folder;
  folder.write("a/good.txt", "good");
  const auto bad = folder.write("b/bad.txt", "line one\ncaf\xE9 bar");
  EXPECT_THAT(read_error(folder.path()), HasSubstr(bad.string() + ":2: byte 0xe9 at byte offset 12 "));
  DataConfig config;
  config.encoding = TextEncoding::kUtf8Replace;
  const auto reader = open_rows(folder.path(), config, LabelPresence::kRequired);
  EXPECT_EQ(read_rows(*reader).size(), 2u);
  EXPECT_EQ(reader->num_replaced_rows(), 1);
}

TEST(FolderReader, WrongShapesAreRefused) {
  TemporaryFolder flat;
  flat.write("a.txt", "x");
  EXPECT_THAT(read_error(flat.path()), HasSubstr("no sub-directories (1 files), expected one a class"));
  TemporaryFolder deep;
  deep.write("train/sport/a.txt", "x");
  EXPECT_THAT(read_error(deep.path()), HasSubstr("a folder inside a class folder"));
  DataConfig config;
  config.text_pair = by_name("pair");
  EXPECT_THAT(read_error(deep.path(), config), HasSubstr("data.text_pair is set"));
  TemporaryFolder named;
  named.write("caf\xE9/a.txt", "x");
  EXPECT_THAT(read_error(named.path()), HasSubstr("the folder's name is not UTF-8"));
}

TEST(OpenLines, EveryLineIsAText) {
  TemporaryFolder folder;
  const auto reader = open_lines(folder.write("a.txt", "one, \"two\"\r\n\nthree"), TextEncoding::kUtf8);
  const auto rows = read_rows(*reader);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].text, "one, \"two\"");
  EXPECT_EQ(rows[1].text, "");
  EXPECT_EQ(rows[2].text, "three");
  EXPECT_EQ(rows[2].line, 3);
  EXPECT_FALSE(rows[2].label || rows[2].text_pair);
}

TEST(OpenLines, EmptyFileHasNoRowsAndAFolderIsRefused) {
  TemporaryFolder folder;
  EXPECT_TRUE(read_rows(*open_lines(folder.write("a.txt", ""), TextEncoding::kUtf8)).empty());
  EXPECT_THROW(open_lines(folder.path(), TextEncoding::kUtf8), DataError);
  EXPECT_THROW(open_lines(folder.path() / "b.txt", TextEncoding::kUtf8), DataError);
}

}  // namespace
}  // namespace finetune
