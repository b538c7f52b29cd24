#pragma once

#include <ucontext.h>

#include <cstddef>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/cuda/block.cuh"

/// Blocks of threads on the host: executes the CUDA kernels' own code with every access checked.
///
/// Each thread of a block is a fibre, one of which runs at a time, until it comes to a barrier. The result of
/// a correct kernel does not depend on the order they run in, so tests run every kernel in two opposite
/// orders of threads and blocks and expect the same bits: a missing barrier, or two threads writing one
/// place, shows.
namespace finetune::kernels::cuda {

/// A kernel did what the device leaves undefined.
class EmulationError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

enum class Order { kForwards, kBackwards };

/// The order of all launches while it lives.
class EmulatedOrder {
 public:
  explicit EmulatedOrder(Order order) : before_(current()) { current() = order; }
  ~EmulatedOrder() { current() = before_; }
  EmulatedOrder(const EmulatedOrder&) = delete;
  EmulatedOrder& operator=(const EmulatedOrder&) = delete;

  static Order& current();

 private:
  Order before_;
};

class BlockEmulation;

/// One thread's view of its block; see `DeviceBlock`.
class EmulatedBlock {
 public:
  EmulatedBlock(BlockEmulation& emulation, int thread) : emulation_(&emulation), thread_(thread) {}

  int64_t x() const;
  int64_t y() const;
  int64_t z() const;
  int thread() const { return thread_; }
  void sync() const;
  float shuffle_xor(float value, int mask) const;

  template <typename T>
  Span<T> shared(int64_t offset, int64_t count) const {
    return {static_cast<T*>(shared_bytes(offset, count * static_cast<int64_t>(sizeof(T)))), count};
  }

  template <Left kLeft, Right kRight, typename T>
  void warp_product(const MatrixView<T>& a, const MatrixView<T>& b, const MatrixView<float>& c, int depth,
                    bool accumulate) const {
    check_matrix(a.data.data, a.stride);
    check_matrix(b.data.data, b.stride);
    check_matrix(c.data.data, c.stride);
    if (depth % kMatrixSide != 0) throw EmulationError("a product's depth is " + std::to_string(depth));
    sync_warp();
    lane_product<kLeft, kRight>(a, b, c, depth, accumulate, thread_ % kWarpSize);
    sync_warp();
  }

 private:
  void sync_warp() const;
  void* shared_bytes(int64_t offset, int64_t size) const;
  /// Throws where tensor cores could not load the matrix.
  static void check_matrix(const void* data, int stride);

  BlockEmulation* emulation_;
  int thread_;
};

/// The fibres of one block at a time. At most one of these works at any time: they share their stacks.
class BlockEmulation {
 public:
  using Body = std::function<void(EmulatedBlock&)>;

  BlockEmulation(int num_threads, int64_t shared_bytes, Body body);

  /// Executes the block. Throws what a thread threw, or `EmulationError` where threads that have not all come
  /// to the same barrier cannot go on.
  void run(const Grid& index);

 private:
  friend class EmulatedBlock;
  enum class State { kReady, kAtWarpBarrier, kAtBlockBarrier, kDone };
  /// What GCC's light setjmp keeps: it makes no system call, which `swapcontext` does at every barrier.
  struct Jump {
    void* registers[5];
  };
  struct Fibre {
    ucontext_t context = {};  ///< for the first entry only
    Jump jump = {};
    bool entered = false;
    State state = State::kReady;
    int phase = 0;  ///< of the two slots that shuffles use in turn
    float slots[2] = {};
  };

  static void enter();
  [[gnu::noinline]] void run_body(size_t thread);
  [[gnu::noinline]] void leave(size_t thread);
  [[gnu::noinline]] void resume(size_t thread);
  void wait(int thread, State barrier);
  bool open_barriers();
  bool all(size_t begin, size_t end, State state) const;
  void set_all(size_t begin, size_t end, State state);

  Body body_;
  std::vector<Fibre> fibres_;
  std::vector<std::byte> shared_;
  size_t shared_start_ = 0;
  int64_t shared_size_;
  Jump scheduler_ = {};
  size_t running_ = 0;
  Grid index_;
  std::exception_ptr error_;
};

/// Executes `kernel` over its whole grid.
template <typename Kernel>
void emulate(const Kernel& kernel) {
  const Grid grid = kernel.grid();
  const int64_t num_blocks = grid.x * grid.y * grid.z;
  BlockEmulation emulation(Kernel::kThreads, kernel.shared_bytes(),
                           [&kernel](EmulatedBlock& block) { kernel(block); });
  for (int64_t i = 0; i < num_blocks; ++i) {
    const int64_t block = EmulatedOrder::current() == Order::kForwards ? i : num_blocks - 1 - i;
    emulation.run({block % grid.x, block / grid.x % grid.y, block / grid.x / grid.y});
  }
}

}  // namespace finetune::kernels::cuda
