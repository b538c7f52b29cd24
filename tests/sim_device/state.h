#pragma once

/// What the parts of the simulated accelerator share.
///
/// Every allocation has two addresses. Tensors hold the first, which lies in a reserved range that is never
/// readable, so a host access crashes; kernels get the second. A launch gives the CPU kernel CPU tensors over
/// the second address, lets the CPU allocator hand out device memory meanwhile, and relabels what comes back.
/// Kernels run at once. What a real device would have run later is checked instead: each stream carries a
/// vector clock, events and host waits join clocks, and each allocation remembers who touched which bytes
/// when.

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/Stream.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim_device.h"

namespace finetune::sim {

constexpr int kQueues = kDevices * kStreams;  ///< a queue is a (device, stream) pair
static_assert(kQueues <= 64, "Block::recorded_queues is a set of bits");
constexpr size_t kRangeBytes = size_t{8} << 40;
constexpr c10::DispatchKeySet kCpuKeys(c10::DispatchKey::CPU);
constexpr c10::DispatchKeySet kSimKeys(c10::DispatchKey::PrivateUse1);

/// [q]: how much of queue q's work is known to be over.
using Clock = std::array<uint64_t, kQueues>;

/// One use of some bytes of a block by work on a queue.
struct Access {
  size_t begin, end;
  int queue;
  uint64_t time;
  bool write;
  const char* op;
};

struct Block {
  int device, queue;       ///< where it was allocated; device -1 is pinned host memory
  char *address, *memory;  ///< what tensors see, what kernels see
  size_t bytes;
  uint64_t serial;
  uint64_t recorded_queues;  ///< by record_stream
  const char* op;            ///< the kernel that allocated or first wrote it
  std::vector<Access> accesses;
};

/// A non-blocking copy that the host has not waited for yet. Its `host` side is frozen (upload: by checksum)
/// or not yet there (download: filled with 0xFF, the values wait in `staged`).
struct HostCopy {
  int queue;
  uint64_t time;
  at::Tensor host, staged;
  uint64_t checksum;
};

struct EventState {
  Clock clock{};
  std::chrono::steady_clock::time_point when;
};

struct DeviceState {
  char* range = nullptr;  ///< where this device's addresses lie; each is given out once
  size_t used = 0;
  Memory memory;
  std::map<std::pair<int, size_t>, std::vector<char*>> cache;  ///< (queue, bytes) -> free memory
  at::Generator generator;
  int next_stream = 0;
};

struct State {
  std::recursive_mutex mutex;
  std::array<DeviceState, kDevices> devices;
  Memory pinned, host;
  std::array<Clock, kQueues> clocks{};
  Clock host_clock{};
  std::map<const char*, Block*> live;                   ///< by the address that tensors see
  std::unordered_map<const void*, Block*> by_memory;    ///< device blocks by the address that kernels see
  std::unordered_map<const void*, size_t> host_blocks;  ///< counted CPU tensors
  std::vector<HostCopy> in_flight;
  Counters counters;
  std::unordered_map<const char*, int64_t> launches;
  std::vector<std::string> violations;
  std::array<int64_t, 3> failures{};  ///< by Operation: how many more until one fails; 0: none does
  bool throw_on_violation = false;
  uint64_t serial = 0, polls = 0;
  std::atomic<int> strict{0};
};

/// Never destroyed: tensors with static lifetime may outlive every other object.
State& state();

/// The state, locked for as long as this lives.
class Locked {
 public:
  Locked() : lock_(state().mutex) {}
  State* operator->() const { return &state(); }

 private:
  std::lock_guard<std::recursive_mutex> lock_;
};

struct ThreadState {
  int device = 0;
  std::array<int, kDevices> stream{};
  int kernel_device = -1;  ///< >= 0 while a kernel runs on this thread
  const char* op = nullptr;
  int reads_allowed = 0;
};
ThreadState& this_thread();

inline c10::Device sim_device(int index) {
  return c10::Device(c10::kPrivateUse1, static_cast<c10::DeviceIndex>(index));
}
/// The index of a device; of the current one where it has none.
inline int index_of(c10::Device device) { return device.has_index() ? device.index() : this_thread().device; }
inline int queue_of(const c10::Stream& stream) {
  return stream.device_index() * kStreams + static_cast<int>(stream.id());
}
inline int current_queue(int device) {
  return device * kStreams + this_thread().stream[static_cast<size_t>(device)];
}
std::string queue_name(int queue);
std::string describe(const Block& block);

/// Throws where the operation is the one that was asked to fail. `what` completes "sim: ".
void fail_if_asked(Operation operation, const std::string& what);

}  // namespace finetune::sim
