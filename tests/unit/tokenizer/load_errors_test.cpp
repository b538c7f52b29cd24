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
      {"NoFiles", {{"config.json", "{}"}}, {"no tokenizer files", "tokenizer.json, vocab.txt"}},
      {"ByteLevelBpe",
       {{"vocab.json", "{}"}, {"merges.txt", ""}},
       {"vocab.json of a tokenizer whose class no file names", "expected a tokenizer of BERT"}},
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
      bad_config("OtherClass", R"({"tokenizer_class": "LlamaTokenizerFast"})",
                 {"tokenizer class LlamaTokenizer", "PreTrainedTokenizerFast"}),
      bad_config("FamilyWithoutFiles", R"({"tokenizer_class": "RobertaTokenizerFast"})",
                 {"no vocab.json and no tokenizer.json", "RobertaTokenizer"}),
      bad_config("ClassLikeBert", R"({"tokenizer_class": "FunnelTokenizer"})",
                 {"tokenizer class FunnelTokenizer"}),
      {"OtherModelType",
       {{"vocab.txt", kVocab}, {"config.json", R"({"model_type": "xlnet"})"}},
       {"no spiece.model"}},
      {"ModelTypeLikeBert",
       {{"vocab.txt", kVocab}, {"config.json", R"({"model_type": "funnel"})"}},
       {"'funnel'"}},
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
      {"MergeLine",
       {{"vocab.json", R"({"a": 0})"},
        {"merges.txt", "#version: 0.2\na b c\n"},
        {"config.json", R"({"model_type": "roberta"})"}},
       {"merges.txt:2: found 'a b c'", "two pieces"}},
      {"VocabularyJson",
       {{"vocab.json", "{"}, {"merges.txt", ""}, {"config.json", R"({"model_type": "roberta"})"}},
       {"vocab.json: not valid JSON at byte"}},
      {"SentencePieceCutOff",
       {{"spiece.model", "\x0A\x7F"}, {"config.json", R"({"model_type": "albert"})"}},
       {"spiece.model: found an end in the middle of a field", "SentencePiece model"}},
      {"SentencePieceOfAnotherKind",
       {{"spiece.model", "\x0A\x03\x0A\x01x\x12\x02\x18\x02"},
        {"config.json", R"({"model_type": "albert"})"}},
       {"spiece.model: found a model of type 2"}},
      {"AddedTokenWithoutId",
       {{"vocab.txt", kVocab}, {"added_tokens.json", R"({"y": "z"})"}},
       {"added_tokens.json: /y: found \"z\""}},
      {"MapTokenIsANumber",
       {{"vocab.txt", kVocab}, {"special_tokens_map.json", R"({"sep_token": 4})"}},
       {"special_tokens_map.json: /sep_token: found 4"}},
      bad_json("NoModel", "model", "{}", {"tokenizer.json: /model: found no 'vocab'"}),
      bad_json("OtherModel", "model", R"({"type": "WordLevel", "vocab": {}})",
               {"/model/type: found 'WordLevel'", "'WordPiece', 'BPE' or 'Unigram'"}),
      bad_json("BpeWithoutMerges", "model", R"({"type": "BPE", "vocab": {"u": 0}})",
               {"/model: found no 'merges'"}),
      bad_json("MergeOfThree", "model", R"({"type": "BPE", "vocab": {"u": 0}, "merges": ["u u u"]})",
               {"/model/merges/0: found \"u u u\"", "two pieces"}),
      bad_json("MergeWithoutPiece", "model", R"({"type": "BPE", "vocab": {"u": 0}, "merges": ["u x"]})",
               {"found 'x' of a merge", "not in the vocabulary"}),
      bad_json("UnigramWithoutScores", "model", R"({"type": "Unigram", "vocab": ["u"]})",
               {"/model/vocab/0: found \"u\"", "a piece and its score"}),
      bad_json("UnigramUnknownId", "model", R"({"type": "Unigram", "vocab": [["u", 0]], "unk_id": 7})",
               {"/model/unk_id: found 7"}),
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
      bad_json("OtherNormalizer", "normalizer", R"({"type": "Nmt"})",
               {"/normalizer: found 'Nmt'", "StripAccents"}),
      bad_json("NormalizerOfASequence", "normalizer",
               R"({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Nmt"}]})",
               {"/normalizer/normalizers/1: found 'Nmt'"}),
      bad_json("CharacterMapNotBase64", "normalizer",
               R"({"type": "Precompiled", "precompiled_charsmap": "a"})", {"not base64"}),
      bad_json("CharacterMapCutOff", "normalizer",
               R"({"type": "Precompiled", "precompiled_charsmap": "/////w=="})", {"lies outside it"}),
      bad_json("OtherPreTokenizer", "pre_tokenizer", R"({"type": "UnicodeScripts"})",
               {"/pre_tokenizer: found 'UnicodeScripts'", "BertPreTokenizer"}),
      bad_json("PatternNotUnderstood", "pre_tokenizer",
               R"x({"type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated"})x",
               {"/pre_tokenizer/pattern/Regex: found '('"}),
      bad_json("OtherBehavior", "pre_tokenizer", R"({"type": "Punctuation", "behavior": "Kept"})",
               {"/pre_tokenizer/behavior: found 'Kept'", "Isolated"}),
      bad_json("OtherScheme", "pre_tokenizer", R"({"type": "Metaspace", "prepend_scheme": "last"})",
               {"/pre_tokenizer/prepend_scheme: found 'last'"}),
      bad_json("OtherPostProcessor", "post_processor", R"({"type": "Chat"})",
               {"/post_processor: found 'Chat'", "'TemplateProcessing', 'BertProcessing'"}),
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
