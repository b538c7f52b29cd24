#include "finetune/checkpoint/store.h"

#include <sys/wait.h>

#include "checkpoint/support.h"
#include "finetune/checkpoint/safetensors.h"

namespace finetune {
namespace {

using ::testing::AllOf;
using testing::CapturedLog;
using testing::checkpoint_error;
using testing::example_snapshot;
using testing::expect_restores;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::strange_names;
using testing::write_bytes;
using testing::fs::exists;
using testing::fs::path;
using testing::fs::read_symlink;

class CheckpointStoreTest : public testing::FolderTest {
 protected:
  CheckpointStore store(int64_t keep_last = 2, bool keep_best = true) {
    return {directory_, {keep_last, keep_best}};
  }
  path step(int64_t number) const {
    char name[32];
    std::snprintf(name, sizeof(name), "step-%08lld", static_cast<long long>(number));
    return directory_ / name;
  }
  std::string link(const char* name) const { return read_symlink(directory_ / name).string(); }
  static void flip_bit(const path& file, size_t offset, int bit) {
    std::string bytes = read_file(file);
    bytes.at(offset) = static_cast<char>(bytes.at(offset) ^ (1 << bit));
    write_bytes(file, bytes);
  }

  path directory_ = folder_ / "run" / "checkpoints";
};

TEST_F(CheckpointStoreTest, SavesAndRestoresEverything) {
  EXPECT_FALSE(store().has_checkpoints());
  EXPECT_EQ(store().newest_valid(), std::nullopt);
  store().save(example_snapshot(500), true);
  EXPECT_TRUE(store().has_checkpoints());
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "state.json", "MANIFEST.json"}) {
    EXPECT_TRUE(exists(step(500) / name)) << name;
  }
  EXPECT_EQ(link("latest"), "step-00000500");
  EXPECT_EQ(link("best"), "step-00000500");
  EXPECT_THAT(strange_names(directory_), IsEmpty());
  const auto checkpoint = store().newest_valid();
  ASSERT_TRUE(checkpoint);
  EXPECT_EQ(checkpoint->step, 500);
  EXPECT_EQ(checkpoint->directory, step(500));
  expect_restores(*checkpoint);
  expect_restores(verify_checkpoint(directory_ / "latest"));
  EXPECT_EQ(SafetensorsFile(step(500) / "model.safetensors").metadata().at("format"), "pt");
}

TEST_F(CheckpointStoreTest, TakesTheHighestStepNotTheNewestFileOrTheLink) {
  store(9).save(example_snapshot(300), false);
  store(9).save(example_snapshot(20), false);
  EXPECT_EQ(link("latest"), "step-00000020");
  EXPECT_EQ(store().newest_valid()->step, 300);
  EXPECT_EQ(link("latest"), "step-00000300");
}

TEST_F(CheckpointStoreTest, KeepsTheLastOnesAndTheBest) {
  CheckpointStore kept = store(2);
  for (int64_t number = 1; number <= 6; ++number) kept.save(example_snapshot(number), number == 2);
  for (int64_t number = 1; number <= 6; ++number)
    EXPECT_EQ(exists(step(number)), number == 2 || number >= 5) << number;
  EXPECT_EQ(link("best"), "step-00000002");
  EXPECT_THAT(strange_names(directory_), IsEmpty());
  kept.save(example_snapshot(7), true);
  EXPECT_FALSE(exists(step(2)));
  EXPECT_EQ(link("best"), "step-00000007");
}

TEST_F(CheckpointStoreTest, KeepsTheOneJustSavedWhateverIsAsked) {
  CheckpointStore kept = store(0, false);
  kept.save(example_snapshot(1), true);
  kept.save(example_snapshot(2), true);
  EXPECT_FALSE(exists(step(1)));
  EXPECT_FALSE(testing::fs::is_symlink(directory_ / "best"));
  expect_restores(*kept.newest_valid());
}

TEST_F(CheckpointStoreTest, ASecondSaveOfAStepMovesTheLinksOnly) {
  CheckpointStore kept = store();
  kept.save(example_snapshot(10), false);
  const auto written = testing::fs::last_write_time(step(10) / "model.safetensors");
  kept.save(example_snapshot(10), true);
  EXPECT_EQ(testing::fs::last_write_time(step(10) / "model.safetensors"), written);
  EXPECT_EQ(link("best"), "step-00000010");
  testing::fs::remove_all(step(10));
  kept.save(example_snapshot(10), false);
  expect_restores(verify_checkpoint(step(10)));
}

TEST_F(CheckpointStoreTest, ADamagedFolderOfTheSameNameIsReplaced) {
  store().save(example_snapshot(10), false);
  store().save(example_snapshot(20), false);
  flip_bit(step(20) / "model.safetensors", 200, 3);
  CheckpointStore resumed = store();
  CapturedLog log;
  EXPECT_EQ(resumed.newest_valid()->step, 10);
  resumed.save(example_snapshot(20), false);
  expect_restores(*resumed.newest_valid());
  EXPECT_THAT(strange_names(directory_), IsEmpty());
}

TEST_F(CheckpointStoreTest, DamagedOnesDoNotCountAsKept) {
  store(5).save(example_snapshot(10), false);
  store(5).save(example_snapshot(20), false);
  flip_bit(step(20) / "state.json", 3, 0);
  CheckpointStore resumed = store(2);
  CapturedLog log;
  EXPECT_EQ(resumed.newest_valid()->step, 10);
  resumed.save(example_snapshot(25), false);
  EXPECT_TRUE(exists(step(10)));
  resumed.save(example_snapshot(30), false);
  EXPECT_FALSE(exists(step(10)));
  EXPECT_FALSE(exists(step(20)));
  EXPECT_TRUE(exists(step(25)));
}

TEST_F(CheckpointStoreTest, StaleTemporariesGoAndOtherFilesStay) {
  store().save(example_snapshot(10), false);
  testing::fs::create_directories(directory_ / ".tmp-step-00000020-4711-0");
  write_bytes(directory_ / ".tmp-step-00000020-4711-0" / "model.safetensors", "half");
  testing::fs::create_directory_symlink("step-00000020", directory_ / ".tmp-latest");
  write_bytes(directory_ / "notes.txt", "mine");
  testing::fs::create_directory(directory_ / "step-by-step");
  EXPECT_EQ(store().newest_valid()->step, 10);
  EXPECT_THAT(strange_names(directory_), ::testing::UnorderedElementsAre("notes.txt", "step-by-step"));
}

TEST_F(CheckpointStoreTest, MendsTheLinksAfterACrashBeforeThem) {
  store().save(example_snapshot(10), true);
  store().save(example_snapshot(20), true);
  for (const char* name : {"latest", "best"}) {
    testing::fs::remove(directory_ / name);
    testing::fs::create_directory_symlink("step-00000010", directory_ / name);
  }
  store().newest_valid();
  EXPECT_EQ(link("latest"), "step-00000020");
  EXPECT_EQ(link("best"), "step-00000020");
}

TEST_F(CheckpointStoreTest, EveryFlippedBitIsFoundNamedAndPassedOver) {
  store().save(example_snapshot(10), false);
  store().save(example_snapshot(20), false);
  size_t flips = 0;
  for (const char* name : {"MANIFEST.json", "state.json", "model.safetensors", "optimizer.safetensors"}) {
    const path file = step(20) / name;
    const size_t size = read_file(file).size();
    // Every byte: the headers whole, and the payload, which is small here.
    for (size_t offset = 0; offset < size; ++offset, ++flips) {
      const int bit = static_cast<int>((offset * 5 + 3) % 8);
      flip_bit(file, offset, bit);
      CapturedLog log;
      const auto checkpoint = store().newest_valid();
      ASSERT_TRUE(checkpoint);
      ASSERT_EQ(checkpoint->step, 10) << name << " byte " << offset << " bit " << bit;
      ASSERT_THAT(log.text(), AllOf(HasSubstr(step(20).string()), HasSubstr(name)));
      flip_bit(file, offset, bit);
    }
  }
  EXPECT_GT(flips, 1000U);
  expect_restores(*store().newest_valid());
}

TEST_F(CheckpointStoreTest, FlipsInALargePayloadAreFound) {
  Snapshot snapshot = example_snapshot(20);
  snapshot.model.push_back({"large", testing::numbers({700, 1000}, 0)});
  store().save(example_snapshot(10), false);
  store().save(snapshot, false);
  const path file = step(20) / "model.safetensors";
  const size_t size = read_file(file).size();
  for (size_t offset = 4096; offset < size; offset += size / 40) {
    flip_bit(file, offset, 6);
    EXPECT_THAT(checkpoint_error([&] { verify_checkpoint(step(20)); }),
                AllOf(HasSubstr("model.safetensors"), HasSubstr("XXH3 checksum")));
    flip_bit(file, offset, 6);
  }
  EXPECT_EQ(store().newest_valid()->step, 20);
}

TEST_F(CheckpointStoreTest, MissingTruncatedAndForeignFilesAreNamed) {
  store().save(example_snapshot(10), false);
  const auto error_after = [&](const char* name, const std::string& content) {
    const std::string before = read_file(step(10) / name);
    write_bytes(step(10) / name, content);
    const std::string message = checkpoint_error([&] { verify_checkpoint(step(10)); });
    write_bytes(step(10) / name, before);
    return message;
  };
  const std::string model = read_file(step(10) / "model.safetensors");
  EXPECT_THAT(error_after("model.safetensors", model.substr(0, model.size() - 1)),
              AllOf(HasSubstr("model.safetensors has"),
                    HasSubstr("bytes, expected " + std::to_string(model.size()))));
  EXPECT_THAT(error_after("MANIFEST.json", ""), HasSubstr("MANIFEST.json is damaged"));
  EXPECT_THAT(error_after("MANIFEST.json", R"({"manifest":{"format_version":2}})"),
              AllOf(HasSubstr("format version 2, expected 1")));
  EXPECT_THAT(error_after("MANIFEST.json", R"({"manifest":{"format_version":1}})"),
              HasSubstr("does not match the checksum"));
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "state.json", "MANIFEST.json"}) {
    testing::fs::rename(step(10) / name, folder_ / "away");
    EXPECT_THAT(checkpoint_error([&] { verify_checkpoint(step(10)); }), HasSubstr(name));
    testing::fs::rename(folder_ / "away", step(10) / name);
  }
  EXPECT_THAT(checkpoint_error([&] { verify_checkpoint(folder_ / "none"); }), HasSubstr("is no folder"));
}

TEST_F(CheckpointStoreTest, ACheckpointUnderAnotherStepsNameIsPassedOver) {
  store().save(example_snapshot(10), false);
  testing::fs::copy(step(10), step(90), testing::fs::copy_options::recursive);
  CapturedLog log;
  EXPECT_EQ(store().newest_valid()->step, 10);
  EXPECT_THAT(log.text(), HasSubstr("its manifest is of step 10"));
}

TEST_F(CheckpointStoreTest, NoGoodCheckpointIsNothingAndSaysWhy) {
  store().save(example_snapshot(10), false);
  testing::fs::remove(step(10) / "state.json");
  CapturedLog log;
  EXPECT_EQ(store().newest_valid(), std::nullopt);
  EXPECT_THAT(log.text(), AllOf(HasSubstr("step-00000010"), HasSubstr("state.json")));
  EXPECT_TRUE(store().has_checkpoints());
}

TEST_F(CheckpointStoreTest, RestoreListsEveryDifferenceAndTouchesNothing) {
  store().save(example_snapshot(10), false);
  const VerifiedCheckpoint checkpoint = *store().newest_valid();
  const NamedTensors model = {{"bert.embeddings.word_embeddings.weight", at::zeros({7, 5})},
                              {"classifier.bias", at::zeros({4})},
                              {"classifier.weight", at::zeros({4, 5})}};
  const NamedTensors optimizer = {{"exp_avg/classifier.bias", at::zeros({3}, at::kBFloat16)},
                                  {"applied", at::zeros({}, at::kLong)}};
  const std::string message = checkpoint_error([&] { restore_tensors(checkpoint, model, optimizer); });
  EXPECT_THAT(message, HasSubstr("4 problems"));
  EXPECT_THAT(message, HasSubstr("model.safetensors: 'classifier.bias' has shape [3], expected [4]"));
  EXPECT_THAT(message, HasSubstr("model.safetensors: 'classifier.weight' is missing"));
  EXPECT_THAT(message,
              HasSubstr("optimizer.safetensors: 'exp_avg/classifier.bias' has dtype F32, expected BF16"));
  EXPECT_THAT(message, HasSubstr("optimizer.safetensors: 'step/classifier.bias' is unexpected"));
  EXPECT_THAT(message, Not(HasSubstr("'applied'")));
  EXPECT_EQ(model.front().tensor.abs().sum().item<float>(), 0);
  EXPECT_EQ(optimizer.back().tensor.item<int64_t>(), 0);
  EXPECT_THAT(checkpoint_error([&] {
                restore_tensors(checkpoint, {model[0], model[0]}, {});
              }),
              HasSubstr("asked for twice"));
}

TEST_F(CheckpointStoreTest, RestoreFillsTheStorageThatExists) {
  store().save(example_snapshot(10), false);
  const VerifiedCheckpoint checkpoint = *store().newest_valid();
  const Snapshot expected = example_snapshot(10);
  const NamedTensors model = testing::zeros_like(expected.model);
  const void* storage = model[0].tensor.const_data_ptr();
  restore_tensors(checkpoint, model, testing::zeros_like(expected.optimizer));
  EXPECT_EQ(model[0].tensor.const_data_ptr(), storage);
  EXPECT_TRUE(model[0].tensor.equal(expected.model[0].tensor));
}

TEST_F(CheckpointStoreTest, AWrongTensorLeavesNothingBehind) {
  store().save(example_snapshot(10), false);
  Snapshot bad = example_snapshot(20);
  bad.optimizer.push_back(bad.optimizer.front());
  EXPECT_THAT(checkpoint_error([&] { store().save(bad, false); }), HasSubstr("two tensors are named"));
  EXPECT_FALSE(exists(step(20)));
  EXPECT_THAT(strange_names(directory_), IsEmpty());
  EXPECT_EQ(store().newest_valid()->step, 10);
}

TEST_F(CheckpointStoreTest, AFileInTheFoldersPlaceIsAnError) {
  testing::fs::create_directories(directory_.parent_path());
  write_bytes(directory_, "");
  EXPECT_THAT(checkpoint_error([&] { store().save(example_snapshot(1), false); }),
              HasSubstr(directory_.string()));
}

TEST_F(CheckpointStoreTest, ProcessesThatSaveAtOnceDoNotMeet) {
  constexpr int kProcesses = 4;
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        // Steps of their own, and high retention: only names of temporaries can meet.
        CheckpointStore own(directory_, {100, false});
        for (int n = 0; n < 5; ++n) own.save(example_snapshot(1 + i + n * kProcesses), false);
        ::_exit(0);
      } catch (...) {
        ::_exit(1);
      }
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  for (const auto& item : testing::fs::directory_iterator(directory_)) {
    if (item.is_directory() && !item.is_symlink()) expect_restores(verify_checkpoint(item.path()));
  }
}

}  // namespace
}  // namespace finetune
