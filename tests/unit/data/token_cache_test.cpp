#include "finetune/data/token_cache.h"

#include <gmock/gmock.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <cstdlib>
#include <sstream>
#include <thread>

#include "data/data_files.h"
#include "data/digest_memo.h"
#include "data/token_cache_file.h"

namespace finetune {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string kKey = "0123456789abcdef0123456789abcdef";

EncodedDataset make_split(int32_t first_id) {
  EncodedDataset dataset;
  dataset.input_ids = {first_id, 7, 8, 9, 10};
  dataset.row_offsets = {0, 2, 5};
  dataset.second_segments = {2, 1};
  dataset.labels = {1, -100};
  dataset.num_truncated = 1;
  dataset.num_replaced = 2;
  dataset.fingerprint = "fingerprint";
  return dataset;
}

EncodedSplits make_splits(int32_t first_id = 5) {
  EncodedSplits splits;
  splits.facts = {{"labels", {"no", "yes"}}};
  splits.splits.emplace("train", make_split(first_id));
  splits.splits.emplace("validation", make_split(first_id + 1));
  splits.splits.at("validation").labels = {};
  return splits;
}

EncodedSplits read_entry(const fs::path& path, const std::string& key) {
  const CacheFile file(path, key);
  file.verify();
  return file.splits();
}

void expect_equal(const EncodedSplits& found, const EncodedSplits& expected) {
  EXPECT_EQ(found.facts, expected.facts);
  ASSERT_EQ(found.splits.size(), expected.splits.size());
  for (const auto& [name, dataset] : expected.splits) {
    const EncodedDataset& other = found.splits.at(name);
    EXPECT_EQ(other.input_ids, dataset.input_ids);
    EXPECT_EQ(other.row_offsets, dataset.row_offsets);
    EXPECT_EQ(other.second_segments, dataset.second_segments);
    EXPECT_EQ(other.labels, dataset.labels);
    EXPECT_EQ(other.num_truncated, dataset.num_truncated);
    EXPECT_EQ(other.num_replaced, dataset.num_replaced);
    EXPECT_EQ(other.fingerprint, dataset.fingerprint);
  }
}

class TokenCacheTest : public testing::Test {
 protected:
  TokenCacheTest() : previous_(spdlog::default_logger()) {
    auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(log_);
    auto logger = std::make_shared<spdlog::logger>("capture", sink);
    logger->set_level(spdlog::level::warn);
    spdlog::set_default_logger(logger);
  }
  ~TokenCacheTest() override { spdlog::set_default_logger(previous_); }

  /// Asks for an entry; counts how often it had to be built.
  EncodedSplits get(TokenCache& cache, const std::vector<fs::path>& files, const Json& settings = {}) {
    return cache.get(files, settings, [&] {
      ++num_built_;
      return make_splits();
    });
  }
  bool builds(const std::vector<fs::path>& files, const Json& settings = {}) {
    TokenCache cache(cache_folder());
    const int before = num_built_;
    expect_equal(get(cache, files, settings), make_splits());
    return num_built_ > before;
  }

  fs::path cache_folder() const { return folder_.path() / "cache"; }
  std::vector<fs::path> entries() const {
    std::vector<fs::path> paths;
    for (const auto& file : fs::directory_iterator(cache_folder())) {
      if (file.path().extension() != ".digest") paths.push_back(file.path());
    }
    return paths;
  }

  TemporaryFolder folder_;
  int num_built_ = 0;
  std::ostringstream log_;

 private:
  std::shared_ptr<spdlog::logger> previous_;
};

TEST_F(TokenCacheTest, AHitIsWhatWasBuilt) {
  const auto file = folder_.write("a.csv", "text,label\n");
  EXPECT_TRUE(builds({file}));
  EXPECT_FALSE(builds({file}));
  EXPECT_FALSE(builds({folder_.write("elsewhere/b.csv", "text,label\n")}))
      << "the content counts, not the name";
  EXPECT_EQ(entries().size(), 1u);
  EXPECT_EQ(fs::status(cache_folder()).permissions(), fs::perms::owner_all);
  EXPECT_THAT(log_.str(), IsEmpty());
}

TEST_F(TokenCacheTest, TheKeyFollowsFilesAndSettings) {
  const auto a = folder_.write("a.csv", "one"), b = folder_.write("b.csv", "two");
  const auto tab = folder_.write("a.tsv", "one"), other = folder_.write("c.csv", "onf");
  const Json settings = {{"max_length", 8}, {"tokenizer", "x"}};
  EXPECT_TRUE(builds({a, b}, settings));
  EXPECT_TRUE(builds({b, a}, settings));
  EXPECT_TRUE(builds({a}, settings));
  EXPECT_TRUE(builds({tab}, settings));
  EXPECT_TRUE(builds({other}, settings));
  EXPECT_TRUE(builds({a, b}, {{"max_length", 9}, {"tokenizer", "x"}}));
  EXPECT_TRUE(builds({a, b}, {{"max_length", 8}, {"tokenizer", "y"}}));
  EXPECT_TRUE(builds({folder_.write("ab.csv", "onetwo")}, settings));
  EXPECT_FALSE(builds({a, b}, settings));
}

TEST_F(TokenCacheTest, WhatIsNoFileIsNotCached) {
  const auto file = folder_.write("classes/x/1.txt", "one");
  for (const fs::path& path :
       {folder_.path() / "classes", fs::path("-"), fs::path("/dev/null"), fs::path("missing")}) {
    EXPECT_TRUE(builds({path})) << path;
    EXPECT_TRUE(builds({path})) << path;
  }
  EXPECT_FALSE(fs::exists(cache_folder()));
}

TEST_F(TokenCacheTest, NoneKeepsNothing) {
  const auto file = folder_.write("a.csv", "one");
  TokenCache cache("none");
  get(cache, {file});
  get(cache, {file});
  EXPECT_EQ(num_built_, 2);
}

TEST_F(TokenCacheTest, AutoIsTheUsersFolderAndLeavesSmallFilesOut) {
  const char* before = std::getenv("FINETUNE_CACHE");
  const std::string saved = before == nullptr ? "" : before;
  ::setenv("FINETUNE_CACHE", folder_.path().c_str(), 1);
  TokenCache cache("auto");
  if (saved.empty()) {
    ::unsetenv("FINETUNE_CACHE");
  } else {
    ::setenv("FINETUNE_CACHE", saved.c_str(), 1);
  }
  get(cache, {folder_.write("small.csv", "one")});
  EXPECT_FALSE(fs::exists(folder_.path() / "tokens"));
  const auto large = folder_.write("large.csv", std::string(2 << 20, 'x'));
  get(cache, {large});
  get(cache, {large});
  EXPECT_EQ(num_built_, 2);
  EXPECT_TRUE(fs::exists(folder_.path() / "tokens"));
}

TEST_F(TokenCacheTest, EveryChangedByteIsNoticed) {
  const auto path = folder_.path() / "entry";
  const EncodedSplits splits = make_splits();
  write_cache_file(path, kKey, splits);
  expect_equal(read_entry(path, kKey), splits);
  const std::string good = read_file(path);
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    folder_.write("entry", bad);
    EXPECT_THROW(read_entry(path, kKey), BadCacheFile) << "byte " << i;
    folder_.write("entry", good.substr(0, i));
    EXPECT_THROW(read_entry(path, kKey), BadCacheFile) << "cut to " << i;
  }
  folder_.write("entry", good + "x");
  EXPECT_THROW(read_entry(path, kKey), BadCacheFile);
  folder_.write("entry", good);
  EXPECT_THROW(read_entry(path, std::string(32, '0')), BadCacheFile);
}

TEST_F(TokenCacheTest, ADamagedEntryIsMadeAnewWithAWarning) {
  const auto file = folder_.write("a.csv", "one");
  builds({file});
  const fs::path entry = entries().at(0);
  for (const std::string& content :
       {std::string(), std::string("not an entry"), read_file(entry).substr(0, 200)}) {
    std::ofstream(entry, std::ios::binary) << content;
    EXPECT_TRUE(builds({file}));
    EXPECT_THAT(log_.str(),
                HasSubstr(entry.string() + ": this entry of the cache of encoded rows is not used"));
    log_.str("");
    EXPECT_FALSE(builds({file}));
    EXPECT_THAT(log_.str(), IsEmpty());
  }
  fs::remove(entry);
  fs::create_directory(entry);
  EXPECT_TRUE(builds({file})) << "a folder in the entry's place";
}

/// Sets the file's times back, as if it had been written long ago.
void settle(const fs::path& file) {
  fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::hours(1));
}

TEST_F(TokenCacheTest, DigestsAreRememberedUntilTheFileIsTouched) {
  const auto file = folder_.write("a.csv", "one");
  const auto stamp = FileStamp::of(file);
  ASSERT_TRUE(stamp);
  EXPECT_FALSE(stamp->is_settled()) << "just written";
  const DigestMemo memo(folder_.path());
  EXPECT_FALSE(memo.find(file, *stamp));
  memo.remember(file, *stamp, "digest");
  EXPECT_EQ(memo.find(file, *stamp), "digest");
  EXPECT_FALSE(memo.find(folder_.write("b.csv", "one"), *stamp)) << "another file";
  folder_.write("a.csv", "two");
  settle(file);
  const auto later = FileStamp::of(file);
  EXPECT_FALSE(*later == *stamp);
  EXPECT_FALSE(memo.find(file, *later));
  EXPECT_FALSE(FileStamp::of(folder_.path()));
}

TEST_F(TokenCacheTest, AChangeIsNoticedAlsoWhereTheTimeOfWritingIsSetBack) {
  const auto file = folder_.write("a.csv", "one");
  settle(file);
  const auto written = fs::last_write_time(file);
  EXPECT_TRUE(builds({file}));
  folder_.write("a.csv", "two");
  fs::last_write_time(file, written);
  EXPECT_TRUE(builds({file}));
  const fs::path entry = entries().at(0);
  const auto kept = fs::last_write_time(entry);
  std::string content = read_file(entry);
  content.back() = static_cast<char>(content.back() ^ 1);
  for (const fs::path& path : entries()) {
    std::ofstream(path, std::ios::binary) << content;
    fs::last_write_time(path, kept);
  }
  EXPECT_TRUE(builds({file}));
}

TEST_F(TokenCacheTest, AFolderThatCannotBeWrittenCostsOneWarning) {
  const auto file = folder_.write("a.csv", "one");
  TokenCache cache(file / "cache");
  expect_equal(get(cache, {file}), make_splits());
  EXPECT_THAT(log_.str(), HasSubstr("name another folder in data.cache_dir"));
  log_.str("");
  expect_equal(get(cache, {file}, {{"other", 1}}), make_splits());
  EXPECT_THAT(log_.str(), IsEmpty());
}

TEST_F(TokenCacheTest, AFileThatChangesWhileItIsReadIsNotKept) {
  const auto file = folder_.write("a.csv", "one");
  TokenCache cache(cache_folder());
  cache.get({file}, {}, [&] {
    folder_.write("a.csv", "longer");
    return make_splits();
  });
  EXPECT_THAT(entries(), IsEmpty());
}

TEST_F(TokenCacheTest, ManyMayAskAtOnce) {
  const auto file = folder_.write("a.csv", "one");
  std::vector<EncodedSplits> results(8);
  {
    std::vector<std::jthread> threads;
    for (auto& result : results) {
      threads.emplace_back([&] {
        for (int round = 0; round < 5; ++round) {
          TokenCache cache(cache_folder());
          result = cache.get({file}, {}, [] { return make_splits(); });
        }
      });
    }
  }
  for (const auto& result : results) expect_equal(result, make_splits());
  EXPECT_EQ(entries().size(), 1u) << "nothing unfinished is left";
  EXPECT_THAT(log_.str(), IsEmpty());
}

TEST_F(TokenCacheTest, WhatAKilledProcessLeftIsRemovedInTime) {
  const auto file = folder_.write("a.csv", "one");
  const auto old = folder_.write("cache/x.tokens.tmp-1-0", "half"),
             fresh = folder_.write("cache/y.tokens.tmp-2-0", "half");
  const auto foreign = folder_.write("cache/notes.txt", "mine");
  for (const auto& path : {old, foreign}) {
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(48));
  }
  builds({file});
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(fresh));
  EXPECT_TRUE(fs::exists(foreign));
}

}  // namespace
}  // namespace finetune
