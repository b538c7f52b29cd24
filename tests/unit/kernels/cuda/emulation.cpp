#include "emulation.h"

#include <algorithm>
#include <utility>

#include "kernels/cuda/adam.cuh"
#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/embedding.cuh"
#include "kernels/cuda/gather_batch.cuh"
#include "kernels/cuda/kernel_lists.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/norm.cuh"
#include "kernels/cuda/rows.cuh"

namespace finetune::kernels::cuda {
namespace {

constexpr size_t kStackBytes = 64 * 1024;
constexpr size_t kSharedAlignment = 128;

BlockEmulation* running_block = nullptr;  // a fibre's entry takes no argument

/// The stack of a thread's fibre, the same for one block after the other: memory that is touched for the
/// first time takes longer than a kernel.
std::vector<std::byte>& stack_of(size_t thread) {
  static std::vector<std::vector<std::byte>> stacks;
  if (thread >= stacks.size()) stacks.resize(thread + 1);
  if (stacks[thread].empty()) stacks[thread].resize(kStackBytes);
  return stacks[thread];
}

/// A function of its own: GCC takes the place that a function jumps to for none of its own.
[[gnu::noinline]] void jump_to(void** registers) { __builtin_longjmp(registers, 1); }

}  // namespace

Order& EmulatedOrder::current() {
  static Order order = Order::kForwards;
  return order;
}

int64_t EmulatedBlock::x() const { return emulation_->index_.x; }
int64_t EmulatedBlock::y() const { return emulation_->index_.y; }
int64_t EmulatedBlock::z() const { return emulation_->index_.z; }

void EmulatedBlock::sync() const { emulation_->wait(thread_, BlockEmulation::State::kAtBlockBarrier); }

void EmulatedBlock::sync_warp() const { emulation_->wait(thread_, BlockEmulation::State::kAtWarpBarrier); }

float EmulatedBlock::shuffle_xor(float value, int mask) const {
  auto& fibres = emulation_->fibres_;
  const int phase = fibres[static_cast<size_t>(thread_)].phase;
  fibres[static_cast<size_t>(thread_)].phase = 1 - phase;
  fibres[static_cast<size_t>(thread_)].slots[phase] = value;
  sync_warp();
  return fibres.at(static_cast<size_t>(thread_ ^ mask)).slots[phase];
}

void* EmulatedBlock::shared_bytes(int64_t offset, int64_t size) const {
  if (offset < 0 || offset + size > emulation_->shared_size_) {
    throw EmulationError("bytes " + std::to_string(offset) + " to " + std::to_string(offset + size) + " of " +
                         std::to_string(emulation_->shared_size_) + " of shared memory");
  }
  return emulation_->shared_.data() + emulation_->shared_start_ + offset;
}

void EmulatedBlock::check_matrix(const void* data, int stride) {
  if (reinterpret_cast<uintptr_t>(data) % 32 != 0 || stride % 8 != 0) {
    throw EmulationError("a matrix of tensor cores does not lie at a multiple of 32 bytes, or its stride " +
                         std::to_string(stride) + " is no multiple of 8");
  }
}

BlockEmulation::BlockEmulation(int num_threads, int64_t shared_bytes, Body body)
    : body_(std::move(body)),
      fibres_(static_cast<size_t>(num_threads)),
      shared_(static_cast<size_t>(shared_bytes) + kSharedAlignment),
      shared_size_(shared_bytes) {
  const auto address = reinterpret_cast<uintptr_t>(shared_.data());
  shared_start_ = (kSharedAlignment - address % kSharedAlignment) % kSharedAlignment;
  for (size_t thread = 0; thread < fibres_.size(); ++thread) {
    ucontext_t& context = fibres_[thread].context;
    std::vector<std::byte>& stack = stack_of(thread);
    ::getcontext(&context);
    context.uc_stack.ss_sp = stack.data();
    context.uc_stack.ss_size = stack.size();
    ::makecontext(&context, &BlockEmulation::enter, 0);
  }
}

/// A fibre's life: the same thread of one block after the other.
void BlockEmulation::enter() {
  while (true) {
    BlockEmulation& emulation = *running_block;
    const size_t thread = emulation.running_;
    emulation.run_body(thread);
    emulation.fibres_[thread].state = State::kDone;
    emulation.leave(thread);
  }
}

void BlockEmulation::run_body(size_t thread) {
  try {
    EmulatedBlock block(*this, static_cast<int>(thread));
    body_(block);
  } catch (...) {
    if (!error_) error_ = std::current_exception();
  }
}

void BlockEmulation::run(const Grid& index) {
  index_ = index;
  error_ = nullptr;
  // What is read before it is written is not a number.
  std::fill(shared_.begin(), shared_.end(), std::byte{0xFF});
  set_all(0, fibres_.size(), State::kReady);
  do {
    for (size_t i = 0; i < fibres_.size(); ++i) {
      const size_t thread = EmulatedOrder::current() == Order::kForwards ? i : fibres_.size() - 1 - i;
      if (fibres_[thread].state == State::kReady) resume(thread);
      if (error_) std::rethrow_exception(error_);
    }
  } while (open_barriers());
  if (!all(0, fibres_.size(), State::kDone)) {
    throw EmulationError("some threads wait at a barrier that others do not come to");
  }
}

void BlockEmulation::resume(size_t thread) {
  running_block = this;
  running_ = thread;
  if (__builtin_setjmp(scheduler_.registers) != 0) return;
  if (fibres_[running_].entered) jump_to(fibres_[running_].jump.registers);
  fibres_[running_].entered = true;
  ::setcontext(&fibres_[running_].context);
}

void BlockEmulation::leave(size_t thread) {
  if (__builtin_setjmp(fibres_[thread].jump.registers) == 0) jump_to(scheduler_.registers);
}

void BlockEmulation::wait(int thread, State barrier) {
  fibres_[static_cast<size_t>(thread)].state = barrier;
  leave(static_cast<size_t>(thread));
}

bool BlockEmulation::open_barriers() {
  bool any = false;
  for (size_t begin = 0; begin < fibres_.size(); begin += kWarpSize) {
    const size_t end = std::min(begin + kWarpSize, fibres_.size());
    if (!all(begin, end, State::kAtWarpBarrier)) continue;
    set_all(begin, end, State::kReady);
    any = true;
  }
  if (any || !all(0, fibres_.size(), State::kAtBlockBarrier)) return any;
  set_all(0, fibres_.size(), State::kReady);
  return true;
}

bool BlockEmulation::all(size_t begin, size_t end, State state) const {
  return std::all_of(fibres_.begin() + static_cast<std::ptrdiff_t>(begin),
                     fibres_.begin() + static_cast<std::ptrdiff_t>(end),
                     [state](const Fibre& fibre) { return fibre.state == state; });
}

void BlockEmulation::set_all(size_t begin, size_t end, State state) {
  for (size_t i = begin; i < end; ++i) fibres_[i].state = state;
}

template <typename Kernel>
void launch(const Kernel& kernel) {
  emulate(kernel);
}

FINETUNE_ROW_KERNELS(FINETUNE_INSTANTIATE_LAUNCH)
FINETUNE_ACTIVATION_KERNELS(FINETUNE_INSTANTIATE_LAUNCH)
FINETUNE_ATTENTION_KERNELS(FINETUNE_INSTANTIATE_LAUNCH)

}  // namespace finetune::kernels::cuda
