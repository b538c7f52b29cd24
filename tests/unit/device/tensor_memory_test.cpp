#include "device/tensor_memory.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace finetune {
namespace {

TEST(TensorMemory, TensorsOfEverySizeComeAndGo) {
  const at::Tensor from_before = at::arange(1 << 20);
  keep_tensor_memory();
  keep_tensor_memory();
  for (const int64_t size : {0, 1, 1000, 1 << 16, (1 << 16) + 1, 1 << 22}) {
    const at::Tensor tensor = at::arange(size);
    EXPECT_EQ(tensor.sum().item<int64_t>(), size * (size - 1) / 2);
  }
  EXPECT_EQ(from_before[-1].item<int64_t>(), (1 << 20) - 1);
}

TEST(TensorMemory, AFreedBlockIsTakenAgain) {
  keep_tensor_memory();
  const void* address = at::ones({1 << 20}).data_ptr();
  EXPECT_EQ(at::ones({1 << 20}).data_ptr(), address);
}

TEST(TensorMemory, GrowsInPlaceOfATensorThatIsResized) {
  keep_tensor_memory();
  at::Tensor tensor = at::arange(1 << 18);
  tensor.resize_({1 << 20});
  EXPECT_EQ(tensor[(1 << 18) - 1].item<int64_t>(), (1 << 18) - 1);
}

TEST(TensorMemory, ServesSeveralThreads) {
  keep_tensor_memory();
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (size_t thread = 0; thread < wrong.size(); ++thread) {
    threads.emplace_back([thread, &wrong] {
      for (int i = 0; i < 200; ++i) {
        const auto value = static_cast<int64_t>(thread) * 1000 + i;
        const at::Tensor tensor = at::full({100000 + 1000 * i}, value, at::kLong);
        wrong[thread] += tensor.ne(value).any().item<bool>() ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
}

}  // namespace
}  // namespace finetune
