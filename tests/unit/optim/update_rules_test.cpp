#include "finetune/optim/update_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "finetune/core/error.h"

namespace finetune {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

OptimizerConfig decaying(double decay) {
  OptimizerConfig config;
  config.layerwise_lr_decay = decay;
  return config;
}

std::vector<double> factors(const std::vector<std::string>& names, const OptimizerConfig& config) {
  std::vector<double> result;
  for (const UpdateRule& rule : update_rules(names, config)) result.push_back(rule.rate_factor);
  return result;
}

TEST(UpdateRules, RatesFallFromTheHeadToTheEmbeddings) {
  EXPECT_EQ(
      factors({"bert.embeddings.word_embeddings.weight", "bert.encoder.layer.0.output.dense.weight",
               "bert.encoder.layer.1.output.dense.bias", "bert.pooler.dense.weight", "classifier.weight"},
              decaying(0.5)),
      (std::vector<double>{0.125, 0.25, 0.5, 1, 1}));
}

TEST(UpdateRules, LayersOfEveryFamily) {
  EXPECT_EQ(factors({"distilbert.embeddings.word_embeddings.weight",
                     "distilbert.transformer.layer.0.ffn.lin1.weight",
                     "distilbert.transformer.layer.1.ffn.lin1.weight", "pre_classifier.weight"},
                    decaying(0.5)),
            (std::vector<double>{0.125, 0.25, 0.5, 1}));
  EXPECT_EQ(factors({"model.embeddings.tok_embeddings.weight", "model.layers.0.attn.Wqkv.weight",
                     "model.layers.1.attn.Wqkv.weight", "model.final_norm.weight", "head.dense.weight"},
                    decaying(0.5)),
            (std::vector<double>{0.125, 0.25, 0.5, 1, 1}));
  EXPECT_EQ(factors({"albert.embeddings.word_embeddings.weight",
                     "albert.encoder.embedding_hidden_mapping_in.weight",
                     "albert.encoder.albert_layer_groups.0.albert_layers.0.ffn.weight",
                     "albert.pooler.weight", "classifier.bias"},
                    decaying(0.5)),
            (std::vector<double>{0.25, 0.25, 0.5, 1, 1}));
  EXPECT_EQ(
      factors({"deberta.embeddings.word_embeddings.weight", "deberta.encoder.layer.0.output.dense.weight",
               "deberta.encoder.rel_embeddings.weight", "pooler.dense.weight"},
              decaying(0.5)),
      (std::vector<double>{0.25, 0.5, 0.25, 1}));
}

TEST(UpdateRules, TheFirstGroupThatMatchesCounts) {
  OptimizerConfig config = decaying(0.5);
  config.learning_rate = 1e-3;
  config.weight_decay = 0.1;
  config.groups = {{.patterns = {"^classifier"}, .learning_rate = 1e-2, .weight_decay = {}},
                   {.patterns = {"weight$"}, .learning_rate = {}, .weight_decay = 0.3}};
  const auto rules =
      update_rules({"bert.embeddings.word_embeddings.weight", "bert.encoder.layer.0.output.dense.bias",
                    "classifier.weight", "classifier.bias"},
                   config);
  EXPECT_EQ(rules[0], (UpdateRule{0.25, 0.3, 2}));  // its own decay, the layer's rate
  EXPECT_EQ(rules[1], (UpdateRule{0.5, 0.0, 1}));
  EXPECT_EQ(rules[2], (UpdateRule{1e-2 / 1e-3, 0.1, 0}));
  EXPECT_EQ(rules[3], (UpdateRule{1e-2 / 1e-3, 0.0, 0}));
}

TEST(UpdateRules, RefusesAPatternThatIsFoundNowhere) {
  OptimizerConfig config;
  config.groups = {{.patterns = {"bias$"}, .learning_rate = {}, .weight_decay = 0.0},
                   {.patterns = {"bias$", "clasifier"}, .learning_rate = {}, .weight_decay = 0.0}};
  EXPECT_THAT(
      [&] {
        update_rules({"bert.weight", "classifier.bias"}, config);
      },
      ThrowsMessage<ConfigError>(
          AllOf(HasSubstr("optimizer.groups[1].patterns: \"clasifier\""), HasSubstr("classifier.bias"))));
}

}  // namespace
}  // namespace finetune
