#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/config_files.h"

namespace finetune {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

class Problems : public ConfigFileTest {};

TEST_F(Problems, NoneInAFileWithWhatARunNeeds) { EXPECT_THAT(problems(with("")), IsEmpty()); }

TEST_F(Problems, FiveMistakesGiveFiveLines) {
  const auto lines = problems(R"({
    "model": {"path": "./encoder"},
    "data": {"train": "train.csv", "max_length": "long"},
    "train": {"batch_size": 0, "precision": "fp23"},
    "optimizer": {"learning_rte": 3e-5},
    "schedule": {"warmup": -1}
  })");
  EXPECT_THAT(
      lines,
      ElementsAre(
          "bert.json: /data/max_length: found the string \"long\"; expected an integer from 3 to 1048576",
          "bert.json: /train/batch_size: found 0; expected an integer from 1 to 16777216",
          "bert.json: /train/precision: found the string \"fp23\"; expected one of auto, fp32, tf32, bf16, "
          "fp16; did you mean fp32?",
          "bert.json: /optimizer/learning_rte: unknown key; did you mean learning_rate?",
          "bert.json: /schedule/warmup: found -1; expected a fraction of all steps (at least 0 and "
          "below 1), or a whole number of steps"));
}

TEST_F(Problems, OfRecipes) {
  EXPECT_THAT(
      problems(with(R"(, "optimizer": {"groups": [{"patterns": ["a("]}, {"learning_rate": 1},
                                                          {"patterns": "x", "lr": 1}, "y"]})")),
      ElementsAre(HasSubstr("/optimizer/groups/0/patterns/0: found the string \"a(\"; expected a regular "
                            "expression")));
  EXPECT_THAT(problems(with(R"(, "optimizer": {"groups": [{"learning_rate": 1}]})")),
              ElementsAre(AllOf(HasSubstr("/optimizer/groups/0"), HasSubstr("\"patterns\" for the names"))));
  EXPECT_THAT(problems(with(R"(, "optimizer": {"groups": [{"patterns": "x", "lr": 1}]})")),
              ElementsAre(AllOf(HasSubstr("/optimizer/groups/0/lr"), HasSubstr("learning_rate"))));
  EXPECT_THAT(problems(with(R"(, "optimizer": {"groups": ["y"]})")),
              ElementsAre(AllOf(HasSubstr("/optimizer/groups/0"), HasSubstr("an object such as"))));
  EXPECT_THAT(
      problems(
          with(R"(, "optimizer": {"learning_rate": 0, "groups": [{"patterns": "x", "learning_rate": 1}]})")),
      ElementsAre(AllOf(HasSubstr("/optimizer/groups"), HasSubstr("model.freeze"))));
  EXPECT_THAT(problems(with(R"(, "optimizer": {"layerwise_lr_decay": 0})")),
              ElementsAre(HasSubstr("/optimizer/layerwise_lr_decay: found 0")));
  EXPECT_THAT(problems(with(R"(, "train": {"early_stopping": {"patience": 0}})")),
              ElementsAre(HasSubstr("/train/early_stopping/patience: found 0")));
  EXPECT_THAT(problems(with(R"(, "train": {"early_stopping": {"patience": 2}})")),
              ElementsAre(AllOf(HasSubstr("/train/early_stopping"), HasSubstr("without rows to evaluate"))));
}

TEST_F(Problems, UnknownKeyNamesTheSectionItBelongsTo) {
  EXPECT_THAT(problems(with(R"(, "learning_rate": 1)")),
              ElementsAre("bert.json: /learning_rate: unknown key; did you mean optimizer.learning_rate?"));
  EXPECT_THAT(problems(with(R"(, "optimizer": {"epochs": 1})")),
              ElementsAre("bert.json: /optimizer/epochs: unknown key; did you mean train.epochs?"));
}

TEST_F(Problems, UnknownSectionIsOneLine) {
  EXPECT_THAT(problems(with(R"(, "optimiser": {"learning_rate": 1, "eps": 2})")),
              ElementsAre("bert.json: /optimiser: unknown key; did you mean optimizer?"));
}

TEST_F(Problems, UnknownKeyUnlikeAnyOtherListsTheKnown) {
  EXPECT_THAT(
      problems(with(R"(, "schedule": {"quite_something_else": 1})")),
      ElementsAre("bert.json: /schedule/quite_something_else: unknown key; known here: type, warmup"));
}

TEST_F(Problems, OddCharactersInAKeyStayOnOneLine) {
  EXPECT_THAT(problems(with(R"(, "schedule": {"a\nb/c~": 1})")),
              ElementsAre(StartsWith(R"(bert.json: /schedule/a\nb~1c~0: )")));
}

TEST_F(Problems, MissingKeysAreNamedWithTheirMeaning) {
  EXPECT_THAT(problems("{}"),
              ElementsAre(StartsWith("bert.json: /model/path: missing, and a run needs it: Folder"),
                          StartsWith("bert.json: /data/train: missing, and a run needs it: File")));
  EXPECT_THAT(problems(with(""), {"data.train=null"}),
              ElementsAre(StartsWith("bert.json: /data/train: missing")));
}

TEST_F(Problems, ARequiredKeyWithASlipIsOneMistake) {
  EXPECT_THAT(problems(R"({"model": {"pth": "./encoder"}, "data": {"train": "a.csv"}})"),
              ElementsAre("bert.json: /model/pth: unknown key; did you mean path?"));
  EXPECT_THAT(problems(R"({"modle": {"path": "./encoder"}, "data": {"train": "a.csv"}})"),
              ElementsAre("bert.json: /modle: unknown key; did you mean model?"));
  EXPECT_THAT(problems(R"({"model": "./encoder", "data": {"train": "a.csv"}})"),
              ElementsAre("bert.json: /model: found the string \"./encoder\"; expected an object of keys"));
}

TEST_F(Problems, DuplicateKeysAreNamedWithTheirLines) {
  EXPECT_THAT(problems("{\"model\": {\"path\": \"./encoder\"},\n \"data\": {\"train\": \"a.csv\"},\n"
                       "\"optimizer\": {\"eps\": 1e-6,\n\"eps\": 1e-8},\n// the second\n\"data\": "
                       "{\"train\": \"b.csv\"}}"),
              ElementsAre("bert.json: /optimizer/eps: line 4 repeats the key of line 3; keep one",
                          "bert.json: /data: line 6 repeats the key of line 2; keep one"));
}

TEST_F(Problems, EqualKeysInDifferentObjectsAreNoDuplicates) {
  EXPECT_THAT(problems(with(R"(, "optimizer": {"type": "sgd"}, "schedule": {"type": "cosine"})")), IsEmpty());
}

TEST_F(Problems, SyntaxErrorsHaveLineAndColumn) {
  EXPECT_THAT(
      problems("{\n  \"seed\": 1,\n}"),
      ElementsAre(
          "bert.json:3:1: syntax error while parsing object key - unexpected '}'; expected string literal; "
          "remove the comma before it"));
  EXPECT_THAT(problems("{\n  \"seed\" 1}"), ElementsAre(StartsWith("bert.json:2:10: syntax error")));
  EXPECT_THAT(problems("{\"seed\": 1} x"), ElementsAre(StartsWith("bert.json:1:13: syntax error")));
  EXPECT_THAT(problems("{\"seed\": 1"), ElementsAre(HasSubstr("unexpected end of input")));
  EXPECT_THAT(problems(""), ElementsAre(StartsWith("bert.json:1:1: syntax error")));
  EXPECT_THAT(problems("{\"seed\": 1e999}"), ElementsAre(StartsWith("bert.json:1:14: number overflow")));
}

TEST_F(Problems, CommentsAreNoSyntaxErrors) {
  EXPECT_THAT(problems("// one\n" + with("/* two\n */ , \"seed\": 7 // three\n")), IsEmpty());
}

TEST_F(Problems, NestingHasAnEnd) {
  EXPECT_THAT(problems(std::string(100000, '[')),
              ElementsAre(StartsWith("bert.json:1:65: nested more than 64 levels")));
}

TEST_F(Problems, BytesThatAreNoUtf8AreNamedWithTheirPlace) {
  EXPECT_THAT(problems("{\n\"a\": \"\xe9\"}"),
              ElementsAre("bert.json:2:7: not UTF-8 (byte offset 8); save the file as UTF-8"));
}

TEST_F(Problems, FileThatCannotBeRead) {
  EXPECT_THAT(problems_of("none.json"),
              ElementsAre("none.json: cannot be read: No such file or directory; check the path"));
  EXPECT_THAT(problems_of("."), ElementsAre(".: cannot be read: Is a directory; check the path"));
}

TEST_F(Problems, FileThatHoldsNoObject) {
  EXPECT_THAT(problems("[1]"), ElementsAre("bert.json: expected a JSON object of sections"));
}

TEST_F(Problems, LongValuesAreCutAndQuoted) {
  const auto lines = problems(with(R"(, "device": ")" + std::string(5000, 'x') + "\""));
  ASSERT_THAT(lines, SizeIs(1));
  EXPECT_LT(lines[0].size(), 200u);
}

struct BadValue {
  const char* pointer;
  const char* value;
  const char* expected;  ///< part of the message
};

class BadValues : public ConfigFileTest, public testing::WithParamInterface<BadValue> {};

/// `{"a": {"b": value}}` for "/a/b".
std::string object_around(std::string pointer, const std::string& value) {
  std::string text = value;
  while (!pointer.empty()) {
    const size_t slash = pointer.rfind('/');
    text = "{\"" + pointer.substr(slash + 1) + "\": " + text + "}";
    pointer.resize(slash);
  }
  return text;
}

TEST_P(BadValues, AreNamedWithWhatWasExpected) {
  const auto [pointer, value, expected] = GetParam();
  write("base.json", with(""));
  const std::string text = object_around(pointer, value);
  const auto lines = problems("{\"extends\": \"base.json\", " + text.substr(1));
  ASSERT_THAT(lines, SizeIs(1));
  EXPECT_THAT(lines[0], StartsWith("bert.json: " + std::string(pointer)));
  EXPECT_THAT(lines[0], HasSubstr("; expected "));
  EXPECT_THAT(lines[0], HasSubstr(expected));
}

INSTANTIATE_TEST_SUITE_P(
    OfEveryKind, BadValues,
    testing::Values(
        BadValue{"/output_dir", "3", "found 3; expected a path"},
        BadValue{"/output_dir", "\"\"", "expected a path"},
        BadValue{"/output_dir", R"("a\u0000b")", "no NUL character"},
        BadValue{"/seed", "-1", "found -1; expected an integer of at least 0"},
        BadValue{"/seed", "1.5", "found 1.5; expected an integer"},
        BadValue{"/seed", "18446744073709551616", "expected an integer"},
        BadValue{"/seed", "\"7\"", "found the string \"7\"; expected an integer"},
        BadValue{"/device", "\"gpu\"", "expected auto, cpu, cuda, or one GPU as in cuda:1"},
        BadValue{"/device", "\"cuda:\"", "cuda:1"}, BadValue{"/device", "\"cuda:1x\"", "cuda:1"},
        BadValue{"/deterministic", "1", "found 1; expected true or false"},
        BadValue{"/deterministic", "\"true\"", "expected true or false"},
        BadValue{"/threads", "-1", "an integer from 0 to 1024"},
        BadValue{"/task/type", "\"sequence_clasification\"", "did you mean sequence_classification?"},
        BadValue{"/task/labels", "\"a\"", "expected a list of strings"},
        BadValue{"/task/labels", "[\"a\", 3]", "/task/labels/1: found 3; expected a string"},
        BadValue{"/task/labels", "[\"a\", \"\"]",
                 "/task/labels/1: found the string \"\"; expected a string of"},
        BadValue{"/task/labels", "[\"a\"]", "found the list [\"a\"]; expected two labels or more"},
        BadValue{"/task/ignore_index", "\"x\"", "expected an integer"},
        BadValue{"/task/label_smoothing", "1", "found 1; expected a number of at least 0.0 and below 1.0"},
        BadValue{"/task/label_smoothing", "[]", "found the list []; expected a number"},
        BadValue{"/model/init", "\"scratch\"", "expected one of pretrained, random"},
        BadValue{"/model/dropout", "-0.1", "expected a number of at least 0.0"},
        BadValue{"/data/train", "{}", "found the object {}; expected a string or a list of strings"},
        BadValue{"/data/train", "[]", "found the list []; expected at least one item"},
        BadValue{"/data/validation", "[\"a.csv\", 1]", "/data/validation/1: found 1; expected a path"},
        BadValue{"/data/format", "\"cvs\"", "did you mean csv?"},
        BadValue{"/data/encoding", "\"utf8\"", "did you mean utf-8?"},
        BadValue{"/data/header", "\"yes\"", "expected one of auto, true, false"},
        BadValue{"/data/delimiter", "\"||\"", "expected one ASCII character"},
        BadValue{"/data/delimiter", R"("\n")", "expected one ASCII character"},
        BadValue{"/data/delimiter", R"("\"")", "expected one ASCII character"},
        BadValue{"/data/delimiter", "\"\xc2\xa7\"", "expected one ASCII character"},
        BadValue{"/data/text", "-1", "expected the name of a column, or its number from 0"},
        BadValue{"/data/text_pair", "\"\"", "expected the name of a column"},
        BadValue{"/data/tokens", "-1", "expected the name of a column, or its number from 0"},
        BadValue{"/data/position_unit", "\"bytes\"", "expected one of tokens, characters"},
        BadValue{"/data/label_separator", "\"\"", "expected a string"},
        BadValue{"/task/type", "\"tagging\"", "expected one of sequence_classification"},
        BadValue{"/task/loss", "\"hinge\"", "expected one of cross_entropy, focal"},
        BadValue{"/task/focal_gamma", "-1", "at least 0.0"},
        BadValue{"/task/class_weights", "[]",
                 "a list of numbers, an object from label to number, or \"balanced\""},
        BadValue{"/task/class_weights", "[1, \"2\"]", "/task/class_weights/1: found the string \"2\""},
        BadValue{"/task/class_weights", "{\"a\": -1}", "/task/class_weights/a: found -1"},
        BadValue{"/task/pos_weight", "2", "a list of numbers"}, BadValue{"/task/threshold", "1", "below 1.0"},
        BadValue{"/data/label", "true", "expected the name of a column"},
        BadValue{"/data/max_length", "2", "an integer from 3"},
        BadValue{"/data/truncation", "\"longest\"", "expected one of longest_first"},
        BadValue{"/data/validation_fraction", "1.0", "below 1.0"},
        BadValue{"/data/max_rows", "0", "an integer of at least 1"},
        BadValue{"/data/shuffle", "0", "true or false"},
        BadValue{"/data/residency", "\"host\"", "expected one of auto, device, stream"},
        BadValue{"/data/workers", "0", "expected auto, or an integer from 1 to 64"},
        BadValue{"/data/workers", "65", "expected auto, or an integer from 1 to 64"},
        BadValue{"/train/epochs", "0", "found 0; expected a number above 0.0"},
        BadValue{"/train/max_steps", "1.5", "an integer of at least 1"},
        BadValue{"/train/micro_batch_size", "0", "expected auto, or an integer of at least 1"},
        BadValue{"/train/micro_batch_size", "\"automatic\"", "expected auto, or an integer"},
        BadValue{"/train/eval_every", "\"1 epok\"", "an interval such as \"1 epoch\""},
        BadValue{"/train/eval_every", "\"0.5 steps\"", "an interval"},
        BadValue{"/train/eval_every", "\"1.epochs\"", "an interval"},
        BadValue{"/train/eval_every", "\"-1 epoch\"", "an interval"},
        BadValue{"/train/log_every", "-5", "an interval"}, BadValue{"/train/log_every", "2.5", "an interval"},
        BadValue{"/train/log_every", "true", "an interval"},
        BadValue{"/train/on_nonfinite", "\"ignore\"", "expected one of skip, abort"},
        BadValue{"/optimizer/type", "\"AdamW\"", "did you mean adamw?"},
        BadValue{"/optimizer/learning_rate", "-1e-5", "at least 0.0"},
        BadValue{"/optimizer/betas", "[0.9]", "a list of two numbers"},
        BadValue{"/optimizer/betas", "[0.9, 1]", "a list of two numbers"},
        BadValue{"/optimizer/betas", "0.9", "a list of two numbers"},
        BadValue{"/optimizer/amsgrad", "1", "true or false"},
        BadValue{"/optimizer/no_decay", "[1]", "/optimizer/no_decay/0: found 1; expected a string"},
        BadValue{"/schedule/warmup", "1.5", "a whole number of steps"},
        BadValue{"/checkpoint/keep_last", "0", "an integer of at least 1"},
        BadValue{"/checkpoint/metric", "\"acuracy\"", "did you mean accuracy?"},
        BadValue{"/checkpoint/mode", "\"maximum\"", "expected one of auto, min, max"},
        BadValue{"/logging/jsonl", "\"no\"", "true or false"},
        BadValue{"/logging", "[]", "found the list []; expected an object of keys"}));

TEST_F(Problems, RepeatedLabelIsNamed) {
  EXPECT_THAT(problems(with(R"(, "task": {"labels": ["a", "b", "a"]})")),
              ElementsAre("bert.json: /task/labels/2: repeats item 0, \"a\"; keep one"));
}

TEST_F(Problems, RenameRulesAreChecked) {
  const auto rename = [&](const std::string& rules) {
    return problems(R"({"model": {"path": "./encoder", "rename": )" + rules +
                    R"(}, "data": {"train": "train.csv"}})");
  };
  EXPECT_THAT(rename("{}"), ElementsAre(HasSubstr("/model/rename: found the object {}; expected a list")));
  EXPECT_THAT(rename(R"([["a"]])"), ElementsAre(HasSubstr("/model/rename/0: found the list")));
  EXPECT_THAT(rename(R"([["a", "b"], ["(", "b"]])"),
              ElementsAre(AllOf(HasSubstr("/model/rename/1/0: found the string \"(\""),
                                HasSubstr("expected a regular expression"))));
}

struct Conflicting {
  const char* name;
  const char* text;  ///< members of the top object
  std::vector<std::string> overrides;
  const char* start;
  const char* part;
};

void PrintTo(const Conflicting& conflicting, std::ostream* out) { *out << conflicting.name; }

class Conflicts : public ConfigFileTest, public testing::WithParamInterface<Conflicting> {};

TEST_P(Conflicts, AreNamedAtTheValueThatWasWritten) {
  const Conflicting& c = GetParam();
  write("base.json", R"({"model": {"path": "./encoder"}, "data": {"train": "train.csv"}})");
  const auto lines = problems(std::string(R"({"extends": "base.json")") + c.text + "}", c.overrides);
  ASSERT_THAT(lines, SizeIs(1));
  EXPECT_THAT(lines[0], StartsWith(c.start));
  EXPECT_THAT(lines[0], HasSubstr(c.part));
}

INSTANTIATE_TEST_SUITE_P(
    OfValues, Conflicts,
    testing::Values(
        Conflicting{"TwoSourcesOfValidation",
                    R"(, "data": {"validation": "v.csv", "validation_fraction": 0.1})",
                    {},
                    "bert.json: /data/validation_fraction: found 0.1 beside data.validation",
                    "unset the other"},
        Conflicting{"FractionByOverride",
                    R"(, "data": {"validation": "v.csv"})",
                    {"data.validation_fraction=0.2"},
                    "--set data.validation_fraction: found 0.2 beside data.validation",
                    "unset the other"},
        Conflicting{
            "WarmupPastTheEnd",
            R"(, "schedule": {"warmup": 100}, "train": {"max_steps": 50})",
            {},
            "bert.json: /schedule/warmup: found a warm-up of 100 steps in a run of train.max_steps = 50",
            "a fraction below 1"},
        Conflicting{"AmsgradOfSgd",
                    R"(, "optimizer": {"type": "sgd", "amsgrad": true})",
                    {},
                    "bert.json: /optimizer/amsgrad: sgd keeps no second moment",
                    "use adamw or adam"},
        Conflicting{"OnlySecondWithoutPair",
                    R"(, "data": {"truncation": "only_second"})",
                    {},
                    "bert.json: /data/truncation: found only_second where rows have one text",
                    "set data.text_pair"},
        Conflicting{"TextIsLabel",
                    R"(, "data": {"label": "text"})",
                    {},
                    "bert.json: /data/label: column \"text\" is both data.text and data.label",
                    "name two columns"},
        Conflicting{"TextIsPair",
                    R"(, "data": {"text": 1, "text_pair": 1})",
                    {},
                    "bert.json: /data/text_pair: column 1 is both data.text and data.text_pair",
                    "name two columns"},
        Conflicting{"LabelIsPair",
                    R"(, "data": {"text_pair": "label"})",
                    {},
                    "bert.json: /data/text_pair: column \"label\" is both data.label and data.text_pair",
                    "name two columns"},
        Conflicting{
            "NamesWithoutHeader",
            R"(, "data": {"header": false, "text": 0})",
            {},
            "bert.json: /data/header: found the name \"label\" for data.label where data.header is false",
            "the number of a column"},
        Conflicting{"PairInFolder",
                    R"(, "data": {"format": "folder", "text_pair": "b"})",
                    {},
                    "bert.json: /data/text_pair: a folder's files hold one text each",
                    "unset data.text_pair"},
        Conflicting{"DelimiterOfJsonLines",
                    R"(, "data": {"format": "jsonl"})",
                    {"data.delimiter=;"},
                    "--set data.delimiter: only csv and tsv have a delimiter",
                    "unset data.delimiter"}),
    [](const auto& conflict) { return std::string(conflict.param.name); });

TEST_F(Problems, AValueThatWasRefusedCausesNoConflict) {
  EXPECT_THAT(problems(with(R"(, "schedule": {"warmup": 100}, "train": {"max_steps": "50"})")), SizeIs(1));
  EXPECT_THAT(problems(with(R"(, "schedule": {"warmup": 100}, "train": {"max_steps": 50})")), SizeIs(1));
}

}  // namespace
}  // namespace finetune
