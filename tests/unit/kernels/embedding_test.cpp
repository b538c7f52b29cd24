#include <ATen/Parallel.h>

#include "support.h"

namespace finetune::kernels::testing {
namespace {

struct Ids {
  at::Tensor input_ids, position_ids, token_type_ids;
};

Ids some_ids(int64_t tokens, int64_t words, int64_t positions) {
  const auto generator = at::detail::createCPUGenerator(9);
  const auto draw = [&](int64_t high) { return at::randint(0, high, {tokens}, generator, at::kInt); };
  return {draw(words), draw(positions), draw(2)};
}

at::Tensor look_up(const at::Tensor& table, const at::Tensor& ids) {
  return at::embedding(table, ids.to(at::kLong));
}

class Embeddings : public ::testing::TestWithParam<std::tuple<int64_t, int64_t, bool>> {};

INSTANTIATE_TEST_SUITE_P(Odd, Embeddings,
                         ::testing::Combine(::testing::Values(1, 3, 37), ::testing::Values(5, 16, 48, 384),
                                            ::testing::Bool()));

TEST_P(Embeddings, SumMatchesThreeLookUps) {
  const auto [tokens, cols, has_types] = GetParam();
  const Ids ids = some_ids(tokens, 11, 7);
  const at::Tensor word = parameter(random_tensor({11, cols}, 1)),
                   position = parameter(random_tensor({7, cols}, 2));
  const at::Tensor type = has_types ? parameter(random_tensor({2, cols}, 3)) : at::Tensor();
  const at::Tensor grad = random_tensor({tokens, cols}, 4);
  const at::Tensor word64 = reference_of(word), position64 = reference_of(position);
  const at::Tensor type64 = has_types ? reference_of(type) : at::Tensor();
  at::Tensor expected = look_up(word64, ids.input_ids) + look_up(position64, ids.position_ids);
  if (has_types) expected = expected + look_up(type64, ids.token_type_ids);
  expected.backward(grad.to(at::kDouble));

  const at::Tensor actual =
      embedding_sum(ids.input_ids, ids.position_ids, ids.token_type_ids, word, position, type);
  actual.backward(grad);
  expect_close(actual, expected, 1e-6, "output");
  expect_close(word.grad(), word64.grad(), 1e-6, "word");
  expect_close(position.grad(), position64.grad(), 1e-6, "position");
  if (has_types) expect_close(type.grad(), type64.grad(), 1e-6, "type");
}

TEST(EmbeddingSum, GradientDoesNotDependOnTheNumberOfThreads) {
  const int threads = at::get_num_threads();
  const Ids ids = some_ids(300, 11, 7);
  std::vector<at::Tensor> grads;
  for (const int n : {1, 2}) {
    at::set_num_threads(n);
    const at::Tensor word = parameter(random_tensor({11, 48}, 1));
    embedding_sum(ids.input_ids, ids.position_ids, ids.token_type_ids, word, random_tensor({7, 48}, 2),
                  at::Tensor())
        .backward(random_tensor({300, 48}, 3));
    grads.push_back(word.grad());
  }
  at::set_num_threads(threads);
  EXPECT_TRUE(same(grads[0], grads[1]));
}

TEST(EmbeddingSum, NamesAnIdOutsideItsTable) {
  const at::Tensor ids = at::tensor({0, 11}, at::kInt), zeros = at::zeros({2}, at::kInt);
  try {
    embedding_sum(ids, zeros, zeros, random_tensor({11, 8}, 1), random_tensor({7, 8}, 2), at::Tensor());
    FAIL() << "an id outside the table was accepted";
  } catch (const c10::Error& error) {
    EXPECT_NE(std::string(error.what()).find("word id 11 of token 1"), std::string::npos) << error.what();
  }
}

TEST(GatherBatch, CopiesTheRowsAskedFor) {
  const at::Tensor arena = at::arange(100, 120, at::kInt);
  const at::Tensor offsets = at::tensor({0, 3, 10, 20}, at::kLong);
  const at::Tensor segments = at::tensor({3, 4, 2}, at::kInt);  // row 0 has one segment only
  const at::Tensor rows = at::tensor({2, 0, 0}, at::kLong);
  const auto [input_ids, types, positions, keys] =
      gather_batch(arena, offsets, segments, rows, at::tensor({0, 10, 13, 13}, at::kInt), 13, 5);
  EXPECT_TRUE(same(input_ids, at::cat({at::arange(110, 120, at::kInt), at::arange(100, 103, at::kInt)})));
  EXPECT_TRUE(same(types, at::tensor({0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0}, at::kInt)));
  EXPECT_TRUE(same(positions, at::cat({at::arange(10, at::kInt), at::arange(3, at::kInt)})));
  EXPECT_EQ(keys[0].item<int64_t>(), int64_t{5} << 32);
  EXPECT_EQ(keys[12].item<int64_t>(), int64_t{6} << 32 | 2);
}

TEST(GatherBatch, RefusesBoundsPastTheBatch) {
  const at::Tensor arena = at::arange(20, at::kInt), offsets = at::tensor({0, 20}, at::kLong);
  const at::Tensor segments = at::tensor({20}, at::kInt), rows = at::tensor({0}, at::kLong);
  EXPECT_THROW(gather_batch(arena, offsets, segments, rows, at::tensor({0, 20}, at::kInt), 19, 0),
               c10::Error);
  EXPECT_THROW(gather_batch(arena, offsets, segments, rows, at::tensor({0}, at::kInt), 20, 0), c10::Error);
}

}  // namespace
}  // namespace finetune::kernels::testing
