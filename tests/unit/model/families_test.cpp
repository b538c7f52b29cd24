#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>

#include "finetune/batching/batch.h"
#include "finetune/core/error.h"
#include "finetune/model/classifier.h"
#include "finetune/model/encoder_config.h"

namespace finetune {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// tests/parity/families_test.py compares every family with transformers.

Json config_of(const std::string& model_type, const Json& changes = Json::object()) {
  Json json{{"model_type", model_type},      {"vocab_size", 40},         {"hidden_size", 8},
            {"num_hidden_layers", 2},        {"intermediate_size", 12},  {"num_attention_heads", 2},
            {"max_position_embeddings", 20}, {"type_vocab_size", 2},     {"embedding_size", 4},
            {"relative_attention", true},    {"pos_att_type", "c2p|p2c"}};
  if (model_type == "distilbert")
    json.update({{"dim", 8}, {"n_layers", 2}, {"n_heads", 2}, {"hidden_dim", 12}});
  json.update(changes);
  return json;
}

EncoderConfig read(const std::string& model_type, const Json& changes = Json::object(),
                   const ModelConfig& overrides = {}) {
  return read_encoder_config(config_of(model_type, changes), overrides);
}

TEST(Families, RobertasPositionsBeginAboveThePaddingToken) {
  EXPECT_EQ(read("roberta").max_positions, 18);
  EXPECT_EQ(read("camembert", {{"pad_token_id", 1}}).max_positions, 18);
  EXPECT_EQ(read("xlm-roberta", {{"pad_token_id", 3}}).max_positions, 16);
  EXPECT_EQ(read("mpnet", {{"pad_token_id", 3}}).max_positions, 18) << "whatever its padding token";
  EXPECT_EQ(read("deberta-v2").max_positions, 20);
}

TEST(Families, DropoutHasEachFamilysOwnKeysAndDefaults) {
  const EncoderConfig distilbert = read("distilbert", {{"dropout", 0.3}, {"attention_dropout", 0.4}});
  EXPECT_EQ(distilbert.dropout, 0.3);
  EXPECT_EQ(distilbert.attention_dropout, 0.4);
  EXPECT_EQ(distilbert.classifier_dropout, 0.2);
  EXPECT_EQ(distilbert.token_classifier_dropout, 0.3);
  EXPECT_EQ(read("albert").dropout, 0.0);
  EXPECT_EQ(read("albert").classifier_dropout, 0.1);
  EXPECT_EQ(read("deberta-v2", {{"cls_dropout", 0.4}}).classifier_dropout, 0.4);
  EXPECT_EQ(read("deberta-v2", {{"cls_dropout", 0.4}}).token_classifier_dropout, 0.1);
  ModelConfig overrides;
  overrides.classifier_dropout = 0.5;
  for (const char* family :
       {"bert", "roberta", "distilbert", "electra", "albert", "mpnet", "deberta-v2", "modernbert"}) {
    EXPECT_EQ(read(family, Json::object(), overrides).classifier_dropout, 0.5) << family;
    EXPECT_EQ(read(family, Json::object(), overrides).token_classifier_dropout, 0.5) << family;
  }
}

TEST(Families, AlbertCountsTheLayersThatRun) {
  EXPECT_EQ(
      read("albert", {{"num_hidden_layers", 4}, {"num_hidden_groups", 2}, {"inner_group_num", 3}}).num_layers,
      12);
}

struct Refused {
  const char* model_type;
  Json changes;
  std::vector<std::string> says;
};

TEST(Families, UnsupportedSettingsAreRefusedByName) {
  const std::vector<Refused> cases{
      {"roberta", {{"pad_token_id", 19}}, {"pad_token_id: found 19", "0 to 18"}},
      {"roberta", {{"pad_token_id", "x"}}, {"pad_token_id: found \"x\"", "an integer"}},
      {"distilbert", {{"dim", 0}}, {"dim: found 0", "a positive integer"}},
      {"distilbert", {{"n_heads", 3}}, {"n_heads 3 does not divide dim 8"}},
      {"distilbert", {{"activation", "geluu"}}, {"activation 'geluu'", "did you mean 'gelu'?"}},
      {"electra", {{"embedding_size", nullptr}}, {"embedding_size: found null"}},
      {"albert", {{"num_hidden_groups", 3}}, {"num_hidden_groups 3", "at most num_hidden_layers, 2"}},
      {"mpnet",
       {{"relative_attention_num_buckets", 16}},
       {"relative_attention_num_buckets 16", "expected 32"}},
      {"mpnet", {{"max_position_embeddings", 2}}, {"max_position_embeddings 2", "expected 3 or more"}},
      {"deberta-v2", {{"relative_attention", false}}, {"relative_attention false", "expected true"}},
      {"deberta-v2", {{"relative_attention", 1}}, {"relative_attention: found 1", "true or false"}},
      {"deberta-v2", {{"conv_kernel_size", 3}}, {"conv_kernel_size 3", "without a convolution"}},
      {"deberta-v2", {{"attention_head_size", 8}}, {"attention_head_size 8", "expected 4"}},
      {"deberta-v2", {{"pooler_hidden_size", 9}}, {"pooler_hidden_size 9", "expected 8"}},
      {"deberta-v2", {{"pos_att_type", "c2p|p2p"}}, {"pos_att_type 'p2p'", "expected c2p and p2c"}},
      {"modernbert", {{"layer_types", {"full_attention"}}}, {"layer_types", "one for each of 2 layers"}},
      {"modernbert", {{"rope_scaling", {{"factor", 2}}}}, {"rope_scaling", "expected none"}},
      {"modernbert",
       {{"rope_parameters", {{"full_attention", {{"rope_type", "yarn"}}}}}},
       {"rope_type 'yarn'", "expected 'default'"}},
      {"modernbert", {{"classifier_pooling", "max"}}, {"classifier_pooling 'max'", "'cls' or 'mean'"}},
      {"modernbert", {{"hidden_size", 6}}, {"hidden_size / num_attention_heads is 3", "an even number"}},
      {"funnel", Json::object(), {"model_type 'funnel' is not supported", "deberta-v2"}}};
  for (const Refused& refused : cases) {
    for (const std::string& words : refused.says) {
      EXPECT_THAT([&] { read(refused.model_type, refused.changes); },
                  ThrowsMessage<CheckpointError>(AllOf(HasSubstr("config.json"), HasSubstr(words))))
          << refused.model_type << " " << refused.changes.dump();
    }
  }
}

TEST(Families, EachNamesTheClassThatLoadsIt) {
  EXPECT_EQ(architecture_name(read("xlm-roberta"), HeadKind::kSequence),
            "XLMRobertaForSequenceClassification");
  EXPECT_EQ(architecture_name(read("mpnet"), HeadKind::kToken), "MPNetForTokenClassification");
  EXPECT_EQ(architecture_name(read("deberta-v2"), HeadKind::kToken), "DebertaV2ForTokenClassification");
}

/// A row's logits are the same whoever stands beside it, and for any kind of token types.
TEST(Families, ARowsLogitsDoNotDependOnItsNeighbours) {
  for (const char* family :
       {"roberta", "distilbert", "electra", "albert", "mpnet", "deberta-v2", "modernbert"}) {
    Classifier model(read(family, {{"local_attention", 4}}), {.num_outputs = 3}, c10::Device(c10::kCPU));
    model.initialize_parameters(1);
    for (const Parameter& parameter : model.parameters()) {
      if (parameter.value.dim() == 2) parameter.value.mul_(10);
    }
    EncodedDataset encoded;
    encoded.row_offsets.push_back(0);
    for (const int64_t length : {2, 12, 5}) {
      for (int64_t i = 0; i < length; ++i)
        encoded.input_ids.push_back(static_cast<int32_t>(5 + (length * 7 + i * 3) % 35));
      encoded.row_offsets.push_back(static_cast<int64_t>(encoded.input_ids.size()));
      encoded.second_segments.push_back(static_cast<int32_t>(length / 2));
    }
    const DeviceDataset rows = to_device(encoded, c10::Device(c10::kCPU));
    const auto logits_of = [&](const std::vector<int64_t>& order) {
      const at::NoGradGuard no_grad;
      const auto plans = plan_batches(rows.lengths, order, 0, static_cast<int64_t>(order.size()), 0, 0);
      return model.forward(BatchSource(rows, order, plans).batch(0), ForwardMode{});
    };
    const auto together = logits_of({0, 1, 2});
    for (int64_t row = 0; row < 3; ++row) {
      EXPECT_TRUE(at::allclose(logits_of({row})[0], together[row], 1e-5, 1e-6)) << family << " row " << row;
    }
    EXPECT_FALSE(at::allclose(together[0], together[1], 1e-3, 1e-3)) << family;
  }
}

}  // namespace
}  // namespace finetune
