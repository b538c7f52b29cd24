#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "finetune/core/error.h"
#include "tokenizer_test_support.h"

namespace finetune {
namespace {

using ::testing::HasSubstr;
using testing::LogCapture;
using testing::TemporaryDirectory;

/// Files of a model directory that cannot be loaded, and what the error says.
struct BadDirectory {
  const char* name;
  std::map<std::string, std::string> files;
  std::vector<std::string> says;
};

void PrintTo(const BadDirectory& bad, std::ostream* out) { *out << bad.name; }

const std::string kVocab = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n";

/// A tokenizer.json that loads, with one member of it replaced.
std::string tokenizer_json(const std::string& key, const std::string& value) {
  Json root = Json::parse(R"({
    "added_tokens": [{"id": 1, "content": "s", "special": true}],
    "normalizer": {"type": "BertNormalizer"},
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "post_processor": {"type": "BertProcessing", "sep": ["s", 1], "cls": ["s", 1]},
    "model": {"type": "WordPiece", "unk_token": "u", "vocab": {"u": 0, "s": 1}}})");
  root[key] = Json::parse(value);
  return root.dump();
}

BadDirectory bad_json(const char* name, const std::string& key, const std::string& value,
                      std::vector<std::string> says) {
  return {name, {{"tokenizer.json", tokenizer_json(key, value)}}, std::move(says)};
}

BadDirectory bad_config(const char* name, const std::string& config, std::vector<std::string> says) {
  return {name, {{"vocab.txt", kVocab}, {"tokenizer_config.json", config}}, std::move(says)};
}

std::string template_json(const std::string& single, const std::string& pair, const std::string& tokens) {
  return R"({"type": "TemplateProcessing", "single": [)" + single + R"(], "pair": [)" + pair +
         R"(], "special_tokens": {"s": )" + tokens + "}}";
}

const std::string kS = R"({"SpecialToken": {"id": "s", "type_id": 0}})";
const std::string kA = R"({"Sequence": {"id": "A", "type_id": 0}})";
const std::string kB = R"({"Sequence": {"id": "B", "type_id": 1}})";
const std::string kTokens = R"({"id": "s", "ids": [1], "tokens": ["s"]})";

const std::vector<BadDirectory>& bad_directories() {
  static const std::vector<BadDirectory> kAll = {
      {"NoFiles", {{"config.json", "{}"}}, {"no tokenizer files", "tokenizer.json or vocab.txt"}},
      {"ByteLevelBpe",
       {{"vocab.json", "{}"}, {"merges.txt", ""}},
       {"byte-level BPE", "expected a WordPiece"}},
      {"BrokenJson",
       {{"vocab.txt", kVocab}, {"tokenizer_config.json", R"({"a": )"}},
       {"tokenizer_config.json: not valid JSON at byte 7"}},
      {"NoObject",
       {{"vocab.txt", kVocab}, {"config.json", "[]"}},
       {"config.json: found array", "JSON object"}},
      {"EmptyVocabulary", {{"vocab.txt", ""}}, {"vocab.txt: the file is empty"}},
      {"VocabularyNotUtf8", {{"vocab.txt", "[UNK]\n\xFF"}}, {"vocab.txt: byte 6 is not UTF-8"}},
      {"NoUnknownToken",
       {{"vocab.txt", "[CLS]\n[SEP]\na\n"}},
       {"the unknown token '[UNK]' is not in the vocabulary"}},
      bad_config("OtherClass", R"({"tokenizer_class": "RobertaTokenizerFast"})",
                 {"tokenizer class RobertaTokenizer", "expected a WordPiece tokenizer"}),
      bad_config("ClassLikeBert", R"({"tokenizer_class": "MPNetTokenizer"})",
                 {"tokenizer class MPNetTokenizer"}),
      {"OtherModelType", {{"vocab.txt", kVocab}, {"config.json", R"({"model_type": "xlnet"})"}}, {"'xlnet'"}},
      {"ModelTypeLikeBert",
       {{"vocab.txt", kVocab}, {"config.json", R"({"model_type": "mpnet"})"}},
       {"'mpnet'"}},
      bad_config("FlagIsNoBoolean", R"({"do_lower_case": "no"})",
                 {"/do_lower_case: found \"no\"", "expected true, false or null"}),
      bad_config("SideIsNoWord", R"({"truncation_side": 1})",
                 {"/truncation_side: found 1", "expected a string"}),
      bad_config("UnknownSide", R"({"truncation_side": "top"})", {"found 'top'", "'left' or 'right'"}),
      bad_config("TokenIsANumber", R"({"cls_token": 7})", {"tokenizer_config.json: /cls_token: found 7"}),
      bad_config("TokenWithoutContent", R"({"cls_token": {"lstrip": true}})",
                 {"/cls_token: found no 'content'"}),
      bad_config("DecoderKeyIsNoId", R"({"added_tokens_decoder": {"x": {"content": "y"}}})",
                 {"/added_tokens_decoder: found the key 'x'", "expected a token id"}),
      {"AddedTokenWithoutId",
       {{"vocab.txt", kVocab}, {"added_tokens.json", R"({"y": "z"})"}},
       {"added_tokens.json: /y: found \"z\""}},
      {"MapTokenIsANumber",
       {{"vocab.txt", kVocab}, {"special_tokens_map.json", R"({"sep_token": 4})"}},
       {"special_tokens_map.json: /sep_token: found 4"}},
      bad_json("NoModel", "model", "{}", {"tokenizer.json: /model: found no 'vocab'"}),
      bad_json("OtherModel", "model", R"({"type": "BPE", "vocab": {}})",
               {"/model/type: found 'BPE'", "'WordPiece'"}),
      bad_json("EmptyModel", "model", R"({"unk_token": "u", "vocab": {}})",
               {"/model/vocab: found no tokens"}),
      bad_json("IdTwice", "model", R"({"unk_token": "u", "vocab": {"u": 0, "s": 0}})",
               {"both have the id 0"}),
      bad_json("NegativeId", "model", R"({"unk_token": "u", "vocab": {"u": -1}})",
               {"the id of 'u' is negative"}),
      bad_json("IdIsNoNumber", "model", R"({"unk_token": "u", "vocab": {"u": "x"}})",
               {"a value that is no id"}),
      bad_json("UnknownIsNoString", "model", R"({"unk_token": 3, "vocab": {"u": 0}})",
               {"/model/unk_token: found 3, expected a value of another type"}),
      bad_json("OtherNormalizer", "normalizer", R"({"type": "NFKC"})",
               {"/normalizer: found 'NFKC'", "'BertNormalizer', the only normaliser that is supported"}),
      bad_json("TwoNormalizers", "normalizer", R"({"type": "Sequence", "normalizers": [{}, {}]})",
               {"/normalizer: found a Sequence of 2 components"}),
      bad_json("OtherPreTokenizer", "pre_tokenizer", R"({"type": "Whitespace"})",
               {"/pre_tokenizer: found 'Whitespace'", "'BertPreTokenizer'"}),
      bad_json("NoPreTokenizer", "pre_tokenizer", "null", {"/pre_tokenizer: found none"}),
      bad_json("OtherPostProcessor", "post_processor", R"({"type": "ByteLevel"})",
               {"/post_processor: found 'ByteLevel'", "'TemplateProcessing' or 'BertProcessing'"}),
      bad_json("AddedTokenOfTheFile", "added_tokens", R"([{"content": "x"}])",
               {"/added_tokens: found no 'id'"}),
      bad_json("TemplateOrder", "post_processor", template_json(kA, kB + "," + kA, kTokens),
               {"texts in another order"}),
      bad_json("TemplateTypes", "post_processor", template_json(kB, kA + "," + kB, kTokens),
               {"texts in another order"}),
      bad_json("TemplatePiece", "post_processor", template_json("{}", kA + "," + kB, kTokens),
               {"/post_processor/single: found {}", "SpecialToken or Sequence"}),
      bad_json("TemplateTypesFall", "post_processor", template_json(kA, kA + "," + kB + "," + kS, kTokens),
               {"token types in another order"}),
      bad_json("TemplateTokens", "post_processor",
               template_json(kS + "," + kA, kA + "," + kB, R"({"ids": [1, 2], "tokens": ["s"]})"),
               {"a different number of ids and tokens"}),
  };
  return kAll;
}

class LoadTokenizerErrors : public ::testing::TestWithParam<BadDirectory> {};

TEST_P(LoadTokenizerErrors, NameThePlaceAndWhatIsExpected) {
  const TemporaryDirectory model;
  for (const auto& [name, content] : GetParam().files) model.write(name, content);
  // As it is, so that every part of tokenizer.json is read.
  if (!GetParam().files.contains("tokenizer_config.json") && GetParam().files.contains("tokenizer.json")) {
    model.write("tokenizer_config.json", R"({"tokenizer_class": "PreTrainedTokenizerFast"})");
  }
  try {
    load_tokenizer(model.path());
    FAIL() << "loaded";
  } catch (const CheckpointError& error) {
    EXPECT_THAT(error.what(), HasSubstr(model.path().string()));
    for (const std::string& words : GetParam().says) EXPECT_THAT(error.what(), HasSubstr(words));
  }
}

INSTANTIATE_TEST_SUITE_P(Directories, LoadTokenizerErrors, ::testing::ValuesIn(bad_directories()),
                         [](const auto& bad) { return std::string(bad.param.name); });

TEST(LoadTokenizer, NamesAMissingDirectory) {
  try {
    load_tokenizer("no/such/model");
    FAIL() << "loaded";
  } catch (const CheckpointError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no/such/model: no such directory"));
  }
}

TEST(LoadTokenizer, TheUnchangedTokenizerJsonLoads) {
  const TemporaryDirectory model;
  model.write("tokenizer.json", tokenizer_json("version", "\"1.0\""));
  EXPECT_EQ(load_tokenizer(model.path())->vocab_size(), 2);
}

TEST(LoadTokenizer, WarnsWhereBertReplacesPartsOfTokenizerJson) {
  const TemporaryDirectory model;
  model.write("config.json", R"({"model_type": "bert"})");
  model.write("tokenizer_config.json",
              R"({"unk_token": "u", "cls_token": "s", "sep_token": "s", "pad_token": "u",
      "mask_token": "u", "do_lower_case": true, "strip_accents": false})");
  model.write(
      "tokenizer.json",
      tokenizer_json("normalizer", R"({"type": "BertNormalizer", "clean_text": false, "strip_accents": true,
                  "handle_chinese_chars": false})"));
  const LogCapture log;
  load_tokenizer(model.path());
  EXPECT_THAT(log.text(), HasSubstr("clean_text is false in tokenizer.json"));
  EXPECT_THAT(log.text(), HasSubstr("disagree about accents"));
  EXPECT_THAT(log.text(), HasSubstr("tokenizer.json has handle_chinese_chars false"));
}

TEST(LoadTokenizer, WarnsWhereTokenizerJsonIsTakenAgainstTheConfig) {
  const TemporaryDirectory model;
  model.write("tokenizer_config.json",
              R"({"tokenizer_class": "PreTrainedTokenizerFast", "do_lower_case": false})");
  model.write("tokenizer.json", tokenizer_json("version", "\"1.0\""));
  const LogCapture log;
  load_tokenizer(model.path());
  EXPECT_THAT(log.text(), HasSubstr("disagree about lower case"));
}

}  // namespace
}  // namespace finetune
