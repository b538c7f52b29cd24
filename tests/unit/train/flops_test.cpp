#include "train/flops.h"

#include <gtest/gtest.h>

namespace finetune {
namespace {

TEST(TrainingFlops, OfBertBase) {
  const EncoderConfig bert_base{.model_type = "bert",
                                .vocab_size = 30522,
                                .hidden_size = 768,
                                .num_layers = 12,
                                .num_heads = 12,
                                .intermediate_size = 3072,
                                .max_positions = 512,
                                .num_token_types = 2};
  // 84,934,656 weights in the layers' matrices; a row of 128 tokens.
  EXPECT_DOUBLE_EQ(training_flops(bert_base, 128, 128, 128.0 * 128.0), 6.0 * 84934656 * 128 + 1811939328.0);
  // One token read: the last layer's 5,308,416 weights after its attention meet that one only.
  EXPECT_DOUBLE_EQ(training_flops(bert_base, 128, 1, 128.0 * 128.0),
                   6.0 * (84934656.0 * 128 - 5308416.0 * 127) + 1811939328.0);
}

}  // namespace
}  // namespace finetune
