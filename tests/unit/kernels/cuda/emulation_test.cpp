#include "emulation.h"

#include <gtest/gtest.h>

#include <vector>

namespace finetune::kernels::cuda {
namespace {

constexpr int kTestThreads = 64;

/// A kernel of two warps whose body the test gives.
template <typename Body>
struct TestKernel {
  Body body;
  Grid blocks = {};
  int64_t shared = 0;

  static constexpr int kThreads = kTestThreads;
  Grid grid() const { return blocks; }
  int64_t shared_bytes() const { return shared; }
  void operator()(EmulatedBlock& block) const { body(block); }
};

template <typename Body>
TestKernel(Body) -> TestKernel<Body>;
template <typename Body>
TestKernel(Body, Grid, int64_t) -> TestKernel<Body>;

/// Each thread passes its number to its neighbour by shared memory, with or without a barrier between.
std::vector<float> pass_on(Order order, bool with_barrier) {
  const EmulatedOrder scope(order);
  std::vector<float> received(kTestThreads);
  const auto body = [&](EmulatedBlock& block) {
    const Span<float> slots = block.shared<float>(0, kTestThreads);
    slots[block.thread()] = static_cast<float>(block.thread());
    if (with_barrier) block.sync();
    received[static_cast<size_t>(block.thread())] = slots[(block.thread() + 1) % kTestThreads];
  };
  emulate(TestKernel{body, Grid{}, kTestThreads * 4});
  return received;
}

TEST(Emulation, BarriersMakeTheOrderOfThreadsIrrelevant) {
  const auto received = pass_on(Order::kForwards, true);
  EXPECT_EQ(received, pass_on(Order::kBackwards, true));
  EXPECT_EQ(received[5], 6.0f);
  EXPECT_EQ(received[kTestThreads - 1], 0.0f);
}

TEST(Emulation, AMissingBarrierShowsInAnotherOrder) {
  EXPECT_NE(pass_on(Order::kForwards, false), pass_on(Order::kBackwards, false));
}

TEST(Emulation, EveryBlockRunsOnce) {
  for (const Order order : {Order::kForwards, Order::kBackwards}) {
    const EmulatedOrder scope(order);
    std::vector<int> seen(2 * 3 * 4);
    emulate(TestKernel{[&](EmulatedBlock& block) {
                         if (block.thread() != 0) return;
                         ++seen[static_cast<size_t>(block.x() + 2 * (block.y() + 3 * block.z()))];
                       },
                       Grid{2, 3, 4}, 0});
    EXPECT_EQ(seen, std::vector<int>(2 * 3 * 4, 1));
  }
}

TEST(Emulation, ShufflesExchangeWithinTheWarp) {
  std::vector<float> sums(kTestThreads);
  emulate(TestKernel{[&](EmulatedBlock& block) {
    sums[static_cast<size_t>(block.thread())] = warp_sum(block, static_cast<float>(block.thread()));
  }});
  for (size_t thread = 0; thread < kTestThreads; ++thread) {
    EXPECT_EQ(sums[thread], thread < 32 ? 31.0f * 16 : 95.0f * 16) << thread;
  }
}

TEST(Emulation, ABarrierThatSomeThreadsLeaveOutIsAnError) {
  EXPECT_THROW(emulate(TestKernel{[](EmulatedBlock& block) {
                 if (block.thread() < 40) block.sync();
               }}),
               EmulationError);
  EXPECT_THROW(emulate(TestKernel{[](EmulatedBlock& block) {
                 if (block.thread() != 3) block.shuffle_xor(1.0f, 1);
               }}),
               EmulationError);
}

TEST(Emulation, AccessOutOfBoundsIsAnError) {
  std::vector<float> memory(kTestThreads - 1);
  EXPECT_THROW(emulate(TestKernel{[&](EmulatedBlock& block) {
                 Span<float>{memory.data(), kTestThreads - 1}[block.thread()] = 1.0f;
               }}),
               std::out_of_range);
  EXPECT_THROW(emulate(TestKernel{[](EmulatedBlock& block) { block.shared<float>(4, 3); }, Grid{}, 12}),
               EmulationError);
}

TEST(Emulation, SharedMemoryBeginsAsNotANumber) {
  bool is_nan = false;
  emulate(TestKernel{[&](EmulatedBlock& block) { is_nan = std::isnan(block.shared<float>(0, 1)[0]); }, Grid{},
                     4});
  EXPECT_TRUE(is_nan);
}

TEST(Emulation, ProductsThatTensorCoresCouldNotLoadAreErrors) {
  const auto product = [](int stride, int64_t offset, int depth) {
    emulate(TestKernel{[=](EmulatedBlock& block) {
                         const MatrixView<Float16> a{block.shared<Float16>(offset, 16 * 24), stride};
                         const MatrixView<float> c{block.shared<float>(2048, 16 * 16), 16};
                         for (int i = block.thread(); i < 16 * 24; i += kTestThreads) a.data[i] = {};
                         block.sync();
                         block.warp_product<Left::kByRows, Right::kByColumns>(a, a, c, depth, false);
                       },
                       Grid{}, 4096});
  };
  EXPECT_NO_THROW(product(24, 0, 16));
  EXPECT_THROW(product(20, 0, 16), EmulationError);
  EXPECT_THROW(product(24, 16, 16), EmulationError);
  EXPECT_THROW(product(24, 0, 8), EmulationError);
}

}  // namespace
}  // namespace finetune::kernels::cuda
