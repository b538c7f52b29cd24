#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/config_files.h"

namespace finetune {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;
using testing::UnorderedElementsAre;

class Overrides : public ConfigFileTest {};

TEST_F(Overrides, TakeJsonOrABareString) {
  const RunConfig config = load(
      with(""), {"train.batch_size=8", "device=cpu", "data.header=false", "data.text=1", "data.label=0",
                 R"(task.labels=["a","b"])", "train.eval_every=0.5 epochs", "optimizer.learning_rate=1e-4",
                 R"(data.delimiter="\t")", R"(optimizer={"type":"adam","eps":1e-6})"});
  EXPECT_EQ(config.train.batch_size, 8);
  EXPECT_EQ(config.device, "cpu");
  EXPECT_EQ(config.data.header, HeaderMode::kAbsent);
  EXPECT_EQ(config.data.text, (ColumnName{"", 1}));
  EXPECT_THAT(config.task.labels, ElementsAre("a", "b"));
  EXPECT_EQ(config.train.eval_every, (Interval{0.5, Interval::Unit::kEpochs}));
  EXPECT_EQ(config.optimizer.learning_rate, 1e-4);
  EXPECT_EQ(config.data.delimiter, '\t');
  EXPECT_EQ(config.optimizer.type, OptimizerType::kAdam);
  EXPECT_EQ(config.optimizer.eps, 1e-6);
}

TEST_F(Overrides, ABareStringMayLookLikeANumber) {
  EXPECT_EQ(load(with(""), {"output_dir=2026"}).output_dir, folder_ / "2026");
  EXPECT_THAT(load(with(""), {"data.validation=7"}).data.validation, ElementsAre(folder_ / "7"));
}

TEST_F(Overrides, WinOverTheFileAndTheLastWins) {
  const RunConfig config = load(with(R"(, "seed": 1, "optimizer": {"eps": 1e-3, "learning_rate": 0.5})"),
                                {"seed=2", "seed=3", R"(optimizer={"eps":1e-4})"});
  EXPECT_EQ(config.seed, 3u);
  EXPECT_EQ(config.optimizer.eps, 1e-4);
  EXPECT_EQ(config.optimizer.learning_rate, 0.5);
}

TEST_F(Overrides, NullUnsets) {
  const RunConfig config =
      load(R"({"model": {"path": "./encoder"}, "data": {"train": "a", "max_rows": 5}, "seed": 1,
                                    "optimizer": {"eps": 1}})",
           {"seed=null", "data.max_rows=null", "optimizer=null"});
  EXPECT_EQ(config.seed, RunConfig{}.seed);
  EXPECT_EQ(config.data.max_rows, std::nullopt);
  EXPECT_EQ(config.optimizer, RunConfig{}.optimizer);
}

TEST_F(Overrides, UnknownKeysAreNamedAsWritten) {
  EXPECT_THAT(problems(with(""), {"optimizer.lerning_rate=1", "learning_rate=1", "optimiser.eps=1",
                                  "seed.x=1", "zzzzzzzzzzzz=1"}),
              ElementsAre("--set optimizer.lerning_rate: unknown key; did you mean optimizer.learning_rate?",
                          "--set learning_rate: unknown key; did you mean optimizer.learning_rate?",
                          "--set optimiser.eps: unknown key; did you mean optimizer.eps?",
                          StartsWith("--set seed.x: unknown key; "),
                          StartsWith("--set zzzzzzzzzzzz: unknown key; known here: output_dir, ")));
  EXPECT_THAT(problems(with(""), {R"(optimizer={"esp": 1})"}),
              ElementsAre("--set optimizer.esp: unknown key; did you mean eps?"));
}

TEST_F(Overrides, BadValuesAreNamedAsWritten) {
  EXPECT_THAT(problems(with(""), {"train.batch_size=many", "task.labels=[\"a\",1]", "train.max_steps=-1"}),
              UnorderedElementsAre(
                  "--set task.labels.1: found 1; expected a string",
                  "--set train.batch_size: found the string \"many\"; expected an integer from 1 to 16777216",
                  "--set train.max_steps: found -1; expected an integer of at least 1"));
}

TEST_F(Overrides, NeedAKeyAndAValue) {
  EXPECT_THAT(problems(with(""), {"seed", "=3"}),
              ElementsAre("--set seed: expected KEY=VALUE, such as optimizer.learning_rate=3e-5",
                          "--set =3: expected KEY=VALUE, such as optimizer.learning_rate=3e-5"));
  EXPECT_THAT(problems(with(""), {R"(optimizer={"eps":1,"eps":2})"}),
              ElementsAre("--set optimizer.eps: the key stands twice; keep one"));
  EXPECT_THAT(problems(with(""), {"output_dir=\xff"}),
              ElementsAre("--set output_dir: the value is not UTF-8"));
}

TEST_F(Overrides, ProblemsStandBesideThoseOfTheFile) {
  EXPECT_THAT(problems(with(R"(, "seed": -1)"), {"trian.epochs=1"}), SizeIs(2));
}

class Paths : public ConfigFileTest {};

TEST_F(Paths, StartAtTheFilesFolderOrTheWorkingDirectory) {
  write("configs/bert.json", R"({"output_dir": "../runs/x", "model": {"path": "/abs/encoder/"},
                                 "data": {"train": ["a.csv", "./b.csv"], "validation": "sub/../v.csv"}})");
  const RunConfig config = load_run_config("configs/bert.json", {"data.test=t.csv"});
  EXPECT_EQ(config.output_dir, folder_ / "runs/x");
  EXPECT_EQ(config.model.path, "/abs/encoder");
  EXPECT_THAT(config.data.train, ElementsAre(folder_ / "configs/a.csv", folder_ / "configs/b.csv"));
  EXPECT_THAT(config.data.validation, ElementsAre(folder_ / "configs/v.csv"));
  EXPECT_THAT(config.data.test, ElementsAre(folder_ / "t.csv"));
}

TEST_F(Paths, TheDefaultOutputFolderStartsWhereWrittenOnesDo) {
  write("configs/bert.json", with(""));
  EXPECT_EQ(load_run_config("configs/bert.json", {}).output_dir, folder_ / "configs/runs/finetune");
}

TEST_F(Paths, ALinkInTheWayIsFollowed) {
  write("real/configs/bert.json", R"({"model": {"path": "../encoder"}, "data": {"train": "../a.csv"}})");
  std::filesystem::create_directory_symlink(folder_ / "real/configs", folder_ / "link");
  const RunConfig config = load_run_config("link/bert.json", {});
  EXPECT_EQ(config.model.path, std::filesystem::weakly_canonical(folder_ / "real/encoder"));
}

class Hub : public ConfigFileTest {
 protected:
  ScopedVariable cache_{"HF_HUB_CACHE", "cache"};
  std::string config(const std::string& id) {
    return R"({"model": {"path": ")" + id + R"("}, "data": {"train": "a.csv"}})";
  }
};

TEST_F(Hub, AModelIsTakenFromTheCache) {
  write("cache/models--org--tiny/refs/main", "abc");
  write("cache/models--org--tiny/snapshots/abc/config.json", "{}");
  write("cache/models--org--tiny/snapshots/old/config.json", "{}");
  EXPECT_EQ(load(config("org/tiny")).model.path, folder_ / "cache/models--org--tiny/snapshots/abc");
}

TEST_F(Hub, TheOnlyRevisionNeedsNoReference) {
  write("cache/models--tiny/snapshots/abc/config.json", "{}");
  EXPECT_EQ(load(config("tiny")).model.path, folder_ / "cache/models--tiny/snapshots/abc");
}

TEST_F(Hub, AFolderWinsOverTheCache) {
  write("cache/models--tiny/snapshots/abc/config.json", "{}");
  write("tiny/config.json", "{}");
  EXPECT_EQ(load(config("tiny")).model.path, folder_ / "tiny");
}

TEST_F(Hub, AnAbsentModelIsNamedWithTheWayToGetIt) {
  EXPECT_THAT(
      problems(config("org/tiny")),
      ElementsAre(
          "bert.json: /model/path: there is no folder " + (folder_ / "org/tiny").string() +
          ", and no model org/tiny in the Hugging Face cache cache; correct the path, or download the "
          "model: hf download org/tiny"));
}

TEST_F(Hub, OtherPathsAreNotLookedUp) {
  for (const char* path : {"./tiny", "../tiny", "a/b/c", "/tiny", "tiny folder", ".tiny"}) {
    EXPECT_THAT(problems(config(path)), IsEmpty()) << path;
  }
}

TEST_F(Hub, TheCacheIsWhereTheVariablesSay) {
  const ScopedVariable no_cache("HF_HUB_CACHE", nullptr);
  const ScopedVariable home("HF_HOME", "hf");
  write("hf/hub/models--tiny/snapshots/abc/config.json", "{}");
  EXPECT_EQ(load(config("tiny")).model.path, folder_ / "hf/hub/models--tiny/snapshots/abc");
  const ScopedVariable no_home("HF_HOME", nullptr);
  const ScopedVariable user_cache("XDG_CACHE_HOME", "xdg");
  write("xdg/huggingface/hub/models--tiny/snapshots/abc/config.json", "{}");
  EXPECT_EQ(load(config("tiny")).model.path, folder_ / "xdg/huggingface/hub/models--tiny/snapshots/abc");
}

class Variables : public ConfigFileTest {};

TEST_F(Variables, AreReadFromTheEnvironment) {
  const ScopedVariable name("FINETUNE_TEST_NAME", "news");
  const RunConfig config = load(R"({"output_dir": "runs/${FINETUNE_TEST_NAME}-${FINETUNE_TEST_NAME}",
    "model": {"path": "./encoder"}, "data": {"train": ["${FINETUNE_TEST_NAME}.csv"]}})",
                                {"data.test=${FINETUNE_TEST_NAME}.tsv"});
  EXPECT_EQ(config.output_dir, folder_ / "runs/news-news");
  EXPECT_THAT(config.data.train, ElementsAre(folder_ / "news.csv"));
  EXPECT_THAT(config.data.test, ElementsAre(folder_ / "news.tsv"));
}

TEST_F(Variables, DollarsElsewhereStayAsTheyAre) {
  const RunConfig config =
      load(with(R"(, "task": {"labels": ["$5", "$HOME", "a$", "$${x}", "$$", "}", "$$${y"]})"));
  EXPECT_THAT(config.task.labels, ElementsAre("$5", "$HOME", "a$", "${x}", "$$", "}", "$${y"));
}

TEST_F(Variables, HalfAVariableIsRefused) {
  for (const char* text : {"${", "a${x", "${}", "${1a}", "${a b}", "${a-b}"}) {
    EXPECT_THAT(
        problems(with(std::string(R"(, "output_dir": ")") + text + "\"")),
        ElementsAre(
            "bert.json: /output_dir: found ${ without the name of a variable and }; expected ${NAME}, or "
            "$${ for a plain ${"))
        << text;
  }
}

TEST_F(Variables, UnsetOnesAreNamedOnce) {
  const ScopedVariable unset("FINETUNE_TEST_NAME", nullptr);
  EXPECT_THAT(
      problems(R"({"model": {"path": "./encoder"}, "data": {"train": ["a", "${FINETUNE_TEST_NAME}/b"]}})"),
      ElementsAre(
          "bert.json: /data/train/1: the environment variable FINETUNE_TEST_NAME is not set; export it, or "
          "write $${FINETUNE_TEST_NAME} for a plain ${FINETUNE_TEST_NAME}"));
  EXPECT_THAT(
      problems(with(""), {"data.test=${FINETUNE_TEST_NAME}"}),
      ElementsAre(StartsWith("--set data.test: the environment variable FINETUNE_TEST_NAME is not set")));
}

TEST_F(Variables, BytesThatAreNoUtf8AreRefused) {
  const ScopedVariable bad("FINETUNE_TEST_NAME", "\xff");
  EXPECT_THAT(
      problems(with(R"(, "output_dir": "${FINETUNE_TEST_NAME}")")),
      ElementsAre(
          "bert.json: /output_dir: the environment variable FINETUNE_TEST_NAME holds bytes that are not "
          "UTF-8"));
}

class Extends : public ConfigFileTest {};

TEST_F(Extends, WhatIsNotSetComesFromTheBase) {
  write("base/common.json", R"({"model": {"path": "../encoder"}, "data": {"train": "a.csv", "label": "topic"},
                                "optimizer": {"eps": 1e-6, "learning_rate": 0.1}, "task": {"labels": ["a", "b"]}})");
  const RunConfig config = load(R"({"extends": "base/common.json", "data": {"test": "t.csv"},
                                    "optimizer": {"learning_rate": 0.2}, "task": {"labels": ["c", "d", "e"]}})");
  EXPECT_EQ(config.model.path, folder_ / "encoder");
  EXPECT_THAT(config.data.train, ElementsAre(folder_ / "base/a.csv"));
  EXPECT_THAT(config.data.test, ElementsAre(folder_ / "t.csv"));
  EXPECT_EQ(config.data.label, (ColumnName{"topic", {}}));
  EXPECT_EQ(config.optimizer.eps, 1e-6);
  EXPECT_EQ(config.optimizer.learning_rate, 0.2);
  EXPECT_THAT(config.task.labels, ElementsAre("c", "d", "e"));
}

TEST_F(Extends, ABaseMayHaveABase) {
  write("one.json", with(R"(, "seed": 1, "threads": 1)"));
  write("two.json", R"({"extends": "one.json", "seed": 2})");
  const RunConfig config = load(R"({"extends": "two.json", "device": "cpu"})");
  EXPECT_EQ(config.seed, 2u);
  EXPECT_EQ(config.threads, 1);
  EXPECT_EQ(config.device, "cpu");
}

TEST_F(Extends, NullUnsetsWhatTheBaseSets) {
  write("base.json", with(R"(, "seed": 1, "optimizer": {"eps": 1})"));
  const RunConfig config = load(R"({"extends": "base.json", "seed": null, "optimizer": null})");
  EXPECT_EQ(config.seed, RunConfig{}.seed);
  EXPECT_EQ(config.optimizer, RunConfig{}.optimizer);
}

TEST_F(Extends, ProblemsAreNamedInTheirOwnFile) {
  write("base/common.json", with(R"(, "seed": -1, "optimizer": {"esp": 1}, "thread": 1)"));
  EXPECT_THAT(problems(R"({"extends": "base/common.json", "threads": -1})"),
              ElementsAre(StartsWith("base/common.json: /seed: found -1"),
                          StartsWith("base/common.json: /optimizer/esp: unknown key; did you mean eps?"),
                          StartsWith("base/common.json: /thread: unknown key; did you mean threads?"),
                          StartsWith("bert.json: /threads: found -1")));
}

TEST_F(Extends, ValuesThatAreReplacedCauseNoProblem) {
  write("base.json", with(R"(, "seed": -1)"));
  EXPECT_THAT(problems(R"({"extends": "base.json", "seed": 1})"), IsEmpty());
}

TEST_F(Extends, CirclesAreRefused) {
  write("a.json", R"({"extends": "b.json"})");
  write("b.json", R"({"extends": "./a.json"})");
  EXPECT_THAT(problems_of("a.json")[0],
              StartsWith("b.json: /extends: a.json extends this file in turn; break the circle"));
  EXPECT_THAT(problems(R"({"extends": "bert.json"})")[0],
              StartsWith("bert.json: /extends: bert.json extends this file"));
}

TEST_F(Extends, ABaseThatCannotBeReadIsNamed) {
  EXPECT_THAT(problems(R"({"extends": "base/none.json", "seed": -1})"),
              ElementsAre("base/none.json: cannot be read: No such file or directory; check the path"));
  EXPECT_THAT(problems(R"({"extends": 3})")[0],
              "bert.json: /extends: found 3; expected the path of a config file, as a string");
  write("base.json", "{\n]");
  EXPECT_THAT(problems(R"({"extends": "base.json"})"),
              ElementsAre(StartsWith("base.json:2:1: syntax error")));
}

TEST_F(Extends, StandsAtTheTopOnly) {
  EXPECT_THAT(problems(with(R"(, "optimizer": {"extends": "x.json"})")),
              ElementsAre(StartsWith("bert.json: /optimizer/extends: unknown key")));
}

TEST_F(Extends, TheAddressOfTheSchemaIsForEditors) {
  EXPECT_THAT(problems(with(R"(, "$schema": "https://example.org/config.schema.json")")), IsEmpty());
}

}  // namespace
}  // namespace finetune
