#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support.h"

namespace finetune::kernels::testing {
namespace {

constexpr int64_t kVocabulary = 50;
constexpr int64_t kPositions = 300;

struct Ids {
  at::Tensor input, position, type;

  Ids there() const { return {on_device(input), on_device(position), on_device(type)}; }
};

/// Words of every frequency: one of them in half of all places, so that its run covers many chunks.
Ids make_ids(int64_t num_tokens) {
  std::vector<int32_t> words, positions, types;
  for (int64_t i = 0; i < num_tokens; ++i) {
    words.push_back(static_cast<int32_t>(i % 2 == 0 ? 17 : i * i % kVocabulary));
    positions.push_back(static_cast<int32_t>(i % 90));
    types.push_back(i % 90 > 60 ? 1 : 0);
  }
  return {at::tensor(words, at::kInt), at::tensor(positions, at::kInt), at::tensor(types, at::kInt)};
}

TEST(CudaEmbedding, SumEqualsTheCpuKernelToTheBit) {
  for (const int64_t cols : {1, 20, 384}) {
    const Ids ids = make_ids(131);
    const at::Tensor word = random_tensor({kVocabulary, cols}, 1);
    const at::Tensor position = random_tensor({kPositions, cols}, 2);
    for (const operators::OptionalTensor& type :
         {operators::OptionalTensor(random_tensor({2, cols}, 3)), operators::OptionalTensor()}) {
      const auto actual = in_both_orders([&] {
        const Ids there = ids.there();
        return Tensors{tested::embedding_sum(
            there.input, there.position, there.type, on_device(word), on_device(position),
            type ? operators::OptionalTensor(on_device(*type)) : operators::OptionalTensor())};
      });
      EXPECT_TRUE(
          same(actual[0], operators::embedding_sum(ids.input, ids.position, ids.type, word, position, type)));
    }
  }
}

TEST(CudaEmbedding, BackwardAddsToTheRowsSeen) {
  // Around one chunk of sorted places, and many of them.
  for (const int64_t num_tokens : {1, 31, 32, 33, 64, 517}) {
    for (const int64_t cols : {7, 264}) {
      const Ids ids = make_ids(num_tokens);
      const at::Tensor grad = random_tensor({num_tokens, cols}, 4);
      const auto make_grads = [&, n = cols] {
        return Tensors{at::ones({kVocabulary, n}), at::ones({kPositions, n}), at::ones({2, n})};
      };
      const auto actual = in_both_orders([&] {
        const Ids there = ids.there();
        Tensors grads = make_grads();
        for (at::Tensor& table_grad : grads) table_grad = on_device(table_grad);
        tested::embedding_sum_backward(on_device(grad), there.input, there.position, there.type, grads[0],
                                       grads[1], grads[2]);
        return grads;
      });
      const Tensors expected = make_grads();
      operators::embedding_sum_backward(grad, ids.input, ids.position, ids.type, expected[0], expected[1],
                                        expected[2]);
      SCOPED_TRACE(num_tokens);
      expect_all_close(actual, expected, 5e-6);
    }
  }
}

TEST(CudaEmbedding, OneWordInEveryPlaceIsOneLongRun) {
  const at::Tensor ids = on_device(at::full({100}, 3, at::kInt));
  const at::Tensor grad = on_device(at::ones({100, 5}));
  const at::Tensor table_grad = on_device(at::zeros({4, 5}));
  tested::embedding_sum_backward(grad, ids, ids, ids, table_grad, std::nullopt, std::nullopt);
  const at::Tensor result = table_grad.to(at::kCPU);
  EXPECT_TRUE(same(result[3], at::full({5}, 100.0)));
  EXPECT_TRUE(same(result.narrow(0, 0, 3), at::zeros({3, 5})));
}

#if !defined(FINETUNE_TEST_ON_GPU)  // there it ends the process's use of the GPU
TEST(CudaEmbedding, AnIdOutsideTheTableIsCaught) {
  const at::Tensor ids = at::tensor({0, 4}, at::kInt);
  const at::Tensor table = random_tensor({4, 6}, 5);
  EXPECT_THROW(tested::embedding_sum(ids, ids, ids, table, table, std::nullopt), std::out_of_range);
}
#endif

}  // namespace
}  // namespace finetune::kernels::testing
