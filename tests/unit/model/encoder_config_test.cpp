#include "finetune/model/encoder_config.h"

#include <gmock/gmock.h>

#include "finetune/core/error.h"

namespace finetune {
namespace {

using kernels::Activation;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Json bert() {
  return Json{{"model_type", "bert"},       {"vocab_size", 100},
              {"hidden_size", 12},          {"num_hidden_layers", 2},
              {"num_attention_heads", 3},   {"intermediate_size", 24},
              {"type_vocab_size", 2},       {"max_position_embeddings", 40},
              {"hidden_dropout_prob", 0.2}, {"attention_probs_dropout_prob", 0.3}};
}

EncoderConfig read(const Json& changes, const ModelConfig& overrides = {}) {
  Json json = bert();
  json.update(changes);
  return read_encoder_config(json, overrides);
}

TEST(EncoderConfig, TakesSizesAndHuggingFacesDefaults) {
  const EncoderConfig config = read(Json::object());
  EXPECT_EQ(config.vocab_size, 100);
  EXPECT_EQ(config.hidden_size, 12);
  EXPECT_EQ(config.num_layers, 2);
  EXPECT_EQ(config.num_heads, 3);
  EXPECT_EQ(config.intermediate_size, 24);
  EXPECT_EQ(config.max_positions, 40);
  EXPECT_EQ(config.num_token_types, 2);
  EXPECT_EQ(config.pad_token_id, 0);
  EXPECT_EQ(config.activation, Activation::kGelu);
  EXPECT_EQ(config.layer_norm_eps, 1e-12);
  EXPECT_EQ(config.initializer_range, 0.02);
}

TEST(EncoderConfig, ClassifierDropoutFollowsTheHiddenOneUnlessSet) {
  EXPECT_EQ(read(Json::object()).classifier_dropout, 0.2);
  EXPECT_EQ(read({{"classifier_dropout", nullptr}}).classifier_dropout, 0.2);
  EXPECT_EQ(read({{"classifier_dropout", 0.4}}).classifier_dropout, 0.4);
}

TEST(EncoderConfig, TheRunsDropoutWins) {
  ModelConfig overrides;
  overrides.dropout = 0.0;
  overrides.attention_dropout = 0.5;
  const EncoderConfig config = read({{"classifier_dropout", 0.4}}, overrides);
  EXPECT_EQ(config.dropout, 0.0);
  EXPECT_EQ(config.attention_dropout, 0.5);
  EXPECT_EQ(config.classifier_dropout, 0.4);
  EXPECT_EQ(read(Json::object(), overrides).classifier_dropout, 0.0) << "follows the hidden dropout in force";
}

TEST(EncoderConfig, KnowsHuggingFacesNamesOfActivations) {
  const std::vector<std::pair<std::string, Activation>> names{
      {"gelu", Activation::kGelu},          {"gelu_python", Activation::kGelu},
      {"gelu_new", Activation::kGeluTanh},  {"gelu_pytorch_tanh", Activation::kGeluTanh},
      {"gelu_fast", Activation::kGeluTanh}, {"quick_gelu", Activation::kQuickGelu},
      {"relu", Activation::kRelu},          {"silu", Activation::kSilu},
      {"swish", Activation::kSilu},         {"tanh", Activation::kTanh}};
  for (const auto& [name, activation] : names)
    EXPECT_EQ(read({{"hidden_act", name}}).activation, activation) << name;
}

void expect_refused(const Json& changes, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    EXPECT_THAT([&] { read(changes); },
                ThrowsMessage<CheckpointError>(AllOf(HasSubstr("config.json"), HasSubstr(word))))
        << changes.dump();
  }
}

TEST(EncoderConfig, RefusesWhatItCannotUse) {
  expect_refused({{"hidden_act", "geluu"}}, {"hidden_act 'geluu'", "did you mean 'gelu'?"});
  expect_refused({{"hidden_act", 3}}, {"hidden_act: found 3"});
  expect_refused({{"position_embedding_type", "relative_key"}}, {"position_embedding_type 'relative_key'"});
  for (const char* key : {"is_decoder", "add_cross_attention", "is_encoder_decoder"}) {
    expect_refused({{key, true}}, {key, "trains encoders"});
  }
  expect_refused({{"num_attention_heads", 5}}, {"num_attention_heads 5", "hidden_size 12"});
  expect_refused({{"layer_norm_eps", "small"}}, {"layer_norm_eps: found \"small\""});
}

TEST(EncoderConfig, RefusesSizesThatAreMissingOrNotPositive) {
  for (const char* key : {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
                          "intermediate_size", "max_position_embeddings", "type_vocab_size"}) {
    for (const Json& value : {Json(0), Json(-1), Json(1.5), Json("12"), Json(nullptr)}) {
      expect_refused({{key, value}}, {std::string(key) + ": found " + value.dump(), "positive integer"});
    }
    Json json = bert();
    json.erase(key);
    EXPECT_THAT([&] { read_encoder_config(json, {}); },
                ThrowsMessage<CheckpointError>(HasSubstr(std::string(key) + ": found nothing")));
  }
}

}  // namespace
}  // namespace finetune
