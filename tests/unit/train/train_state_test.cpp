#include "train/train_state.h"

#include <gtest/gtest.h>

namespace finetune {
namespace {

TEST(TrainState, GoesThroughJson) {
  const TrainState state{.step = 7,
                         .evaluated = 6,
                         .rows_seen = 224,
                         .tokens_seen = 5000,
                         .train_seconds = 1.25,
                         .micro_batch_tokens = 512,
                         .first_epoch = 3,
                         .source = Json{{"weights_key", "net"}},
                         .best = BestResult{5, 0.125, Json{{"loss", 0.125}}}};
  const TrainState back = train_state_from(Json::parse(to_json(state).dump()));
  EXPECT_EQ(back.step, 7);
  EXPECT_EQ(back.evaluated, 6);
  EXPECT_EQ(back.rows_seen, 224);
  EXPECT_EQ(back.tokens_seen, 5000);
  EXPECT_EQ(back.train_seconds, 1.25);
  EXPECT_EQ(back.micro_batch_tokens, 512);
  EXPECT_EQ(back.first_epoch, 3);
  EXPECT_EQ(back.source, (Json{{"weights_key", "net"}}));
  ASSERT_TRUE(back.best);
  EXPECT_EQ(back.best->step, 5);
  EXPECT_EQ(back.best->value, 0.125);
  EXPECT_EQ(back.best->metrics, (Json{{"loss", 0.125}}));
}

TEST(TrainState, MayHaveNoBestAndNoSource) {
  const TrainState back = train_state_from(to_json(TrainState{}));
  EXPECT_FALSE(back.best);
  EXPECT_TRUE(back.source.is_null());
}

}  // namespace
}  // namespace finetune
