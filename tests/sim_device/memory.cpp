#include "memory.h"

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "order.h"

namespace finetune::sim {
namespace {

using c10::DataPtr;

size_t rounded(size_t size, size_t to) { return (size + to - 1) / to * to; }

void add_bytes(int64_t& current, int64_t& peak, size_t bytes) {
  current += static_cast<int64_t>(bytes);
  peak = std::max(peak, current);
}

void drop_cache(DeviceState& device) {
  for (auto& [key, free] : device.cache) {
    for (char* memory : free) std::free(memory);
    device.memory.reserved -= static_cast<int64_t>(key.second * free.size());
  }
  device.cache.clear();
}

/// Memory for a block: from the cache of its queue, else new.
char* reserve(DeviceState& device, int index, int queue, size_t bytes) {
  if (auto& free = device.cache[{queue, bytes}]; !free.empty()) {
    char* memory = free.back();
    free.pop_back();
    return memory;
  }
  const auto over = [&] {
    return device.memory.budget > 0 &&
           device.memory.reserved + static_cast<int64_t>(bytes) > device.memory.budget;
  };
  if (over()) drop_cache(device);
  const char* op = this_thread().op;
  TORCH_CHECK_WITH(OutOfMemoryError, !over(), "sim:", index, " out of memory", op ? c10::str(" in ", op) : "",
                   ": tried to allocate ", bytes, " bytes, ", device.memory.allocated, " of ",
                   device.memory.budget, " are in use");
  auto* memory = static_cast<char*>(std::aligned_alloc(512, bytes));
  TORCH_CHECK_WITH(OutOfMemoryError, memory, "sim: the host has no ", bytes, " bytes left");
  add_bytes(device.memory.reserved, device.memory.peak_reserved, bytes);
  return memory;
}

/// Reports a free while work of another stream may still use the memory.
void check_free(const Block& block) {
  const Locked s;
  Clock known = s->clocks[static_cast<size_t>(block.queue)];
  join(known, s->host_clock);
  for (const Access& access : block.accesses) {
    const bool recorded = (block.recorded_queues >> access.queue & 1) != 0;
    if (recorded || known[static_cast<size_t>(access.queue)] >= access.time) continue;
    violate(c10::str("early free of ", describe(block), ": ", access.op, " on ", queue_name(access.queue),
                     " may still use it, ", queue_name(block.queue),
                     " may reuse it; no wait and no record_stream"),
            /*may_throw=*/false);
    return;
  }
}

void free_block(void* context) {
  const Locked s;
  auto* block = static_cast<Block*>(context);
  check_free(*block);
  DeviceState& device = s->devices[static_cast<size_t>(block->device)];
  device.cache[{block->queue, block->bytes}].push_back(block->memory);
  device.memory.allocated -= static_cast<int64_t>(block->bytes);
  s->live.erase(block->address);
  s->by_memory.erase(block->memory);
  delete block;
}

void free_pinned(void* context) {
  const Locked s;
  auto* block = static_cast<Block*>(context);
  s->pinned.allocated -= static_cast<int64_t>(block->bytes);
  s->live.erase(block->address);
  std::free(block->memory);
  delete block;
}

struct DeviceMemory final : c10::DeviceAllocator {
  DataPtr allocate(size_t size) override {
    const int device = this_thread().device;
    return size ? device_data(new_block(device, size)) : DataPtr(nullptr, sim_device(device));
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, size_t size) const override {
    const Block *target = find_block(to), *source = find_block(from);
    TORCH_CHECK(target && source, "sim: copy between pointers that are not device memory");
    std::memcpy(target->memory + (static_cast<char*>(to) - target->address),
                source->memory + (static_cast<const char*>(from) - source->address), size);
  }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t = {0, 0}) override {
    const Locked s;
    for (DeviceState& device : s->devices) drop_cache(device);
  }
  void recordStream(const DataPtr& data, c10::Stream stream) override {
    if (data.get()) block_of(data, "record_stream")->recorded_queues |= uint64_t{1} << queue_of(stream);
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex index) override {
    const Memory memory = sim::memory(index);
    c10::CachingDeviceAllocator::DeviceStats stats;
    stats.allocated_bytes[0].current = memory.allocated;
    stats.allocated_bytes[0].peak = memory.peak_allocated;
    stats.reserved_bytes[0].current = memory.reserved;
    stats.reserved_bytes[0].peak = memory.peak_reserved;
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex index) override {
    const Locked s;
    Memory& memory = s->devices.at(static_cast<size_t>(index)).memory;
    memory.peak_allocated = memory.allocated;
    memory.peak_reserved = memory.reserved;
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) override {
    const Memory memory = sim::memory(index);
    const int64_t total = memory.budget ? memory.budget : int64_t{1} << 40;
    return {total - memory.reserved, total};
  }
};

c10::Allocator* former_allocator = nullptr;

struct KernelMemory final : c10::Allocator {
  DataPtr allocate(size_t size) override {
    const int device = this_thread().kernel_device;
    if (device >= 0 && size > 0) {
      char* memory = new_block(device, size)->memory;
      return DataPtr(memory, memory, raw_deleter(), c10::kCPU);
    }
    DataPtr data = former_allocator->allocate(size);
    if (static_cast<int64_t>(size) < kCountedHostBytes) return data;
    void* memory = data.release_context();
    const Locked s;
    s->host_blocks[memory] = size;
    add_bytes(s->host.allocated, s->host.peak_allocated, size);
    return DataPtr(memory, memory, raw_deleter(), c10::kCPU);
  }
  /// oneDNN allocates and frees with this alone, so the context is the pointer, and one function tells all
  /// kinds apart.
  c10::DeleterFnPtr raw_deleter() const override {
    return [](void* memory) {
      const Locked s;
      if (const auto block = s->by_memory.find(memory); block != s->by_memory.end())
        return free_block(block->second);
      if (const auto host = s->host_blocks.find(memory); host != s->host_blocks.end()) {
        s->host.allocated -= static_cast<int64_t>(host->second);
        s->host_blocks.erase(host);
      }
      former_allocator->raw_deleter()(memory);
    };
  }
  bool is_simple_data_ptr(const DataPtr& data) const override {
    return former_allocator->is_simple_data_ptr(data);
  }
  void copy_data(void* to, const void* from, size_t size) const override { std::memcpy(to, from, size); }
};

struct PinnedMemory final : at::HostAllocator {
  DataPtr allocate(size_t size) override {
    const Locked s;
    const size_t bytes = rounded(std::max<size_t>(size, 1), 512);
    auto* memory = static_cast<char*>(std::aligned_alloc(512, bytes));
    TORCH_CHECK_WITH(OutOfMemoryError, memory, "sim: the host has no ", bytes, " bytes left");
    auto* block = new Block{-1, 0, memory, memory, bytes, ++s->serial, 0, this_thread().op, {}};
    s->live[memory] = block;
    add_bytes(s->pinned.allocated, s->pinned.peak_allocated, bytes);
    return DataPtr(memory, block, &free_pinned, c10::kCPU);
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, size_t size) const override { std::memcpy(to, from, size); }
  bool record_event(void*, void*, c10::Stream) override { return true; }
  void empty_cache() override {}
  at::HostStats get_stats() override { return {}; }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}
};

}  // namespace

Block* new_block(int device_index, size_t requested) {
  const Locked s;
  DeviceState& device = s->devices[static_cast<size_t>(device_index)];
  const size_t bytes = rounded(requested, 512);
  ++s->counters.allocations;
  fail_if_asked(Operation::kAllocation, c10::str(bytes, " bytes on sim:", device_index));
  TORCH_CHECK(device.used + bytes + 8192 < kRangeBytes,
              "sim: address range used up; addresses are never used twice");
  const int queue = current_queue(device_index);
  char* memory = reserve(device, device_index, queue, bytes);
  std::memset(memory, 0xFF, bytes);  // NaN: whoever reads memory never written will notice
  auto* block = new Block{device_index, queue, device.range + device.used, memory, bytes,
                          ++s->serial,  0,     this_thread().op,           {}};
  // The memory may still be in use by earlier work on this stream, so another stream has to wait for it.
  const auto index = static_cast<size_t>(queue);
  block->accesses.push_back({0, bytes, queue, s->clocks[index][index], true, "its allocation"});
  device.used += rounded(bytes, 4096) + 4096;
  add_bytes(device.memory.allocated, device.memory.peak_allocated, bytes);
  s->live[block->address] = s->by_memory[memory] = block;
  return block;
}

Block* find_block(const void* address) {
  const Locked s;
  auto after = s->live.upper_bound(static_cast<const char*>(address));
  if (after == s->live.begin()) return nullptr;
  Block* block = std::prev(after)->second;
  return address < block->address + block->bytes ? block : nullptr;
}

Block* pinned_block(const void* address) {
  Block* block = find_block(address);
  return block && block->device < 0 ? block : nullptr;
}

Block* block_of(const DataPtr& data, const char* op) {
  if (data.get_deleter() == &free_block) return static_cast<Block*>(data.get_context());
  Block* block = find_block(data.get());
  if (block && block->device >= 0) return block;
  for (int index = 0; index < kDevices; ++index) {
    const DeviceState& device = state().devices[static_cast<size_t>(index)];
    TORCH_CHECK(!(device.range <= data.get() && data.get() < device.range + device.used),
                "sim: use after free: ", op, " on memory of sim:", index, " that was freed");
  }
  TORCH_CHECK(false, "sim: ", op, " got a pointer that is not device memory");
}

DataPtr device_data(Block* block) {
  return DataPtr(block->address, block, &free_block, sim_device(block->device));
}

DataPtr take_data(c10::StorageImpl& cpu, int device, const char* op) {
  DataPtr& data = cpu._mutable_data_ptr_no_checks();
  if (!data) return DataPtr(nullptr, sim_device(device));
  const Locked s;
  const auto found = s->by_memory.find(data.get());
  if (found != s->by_memory.end() && data.get_deleter() == kernel_allocator().raw_deleter()) {
    data.release_context();
    return device_data(found->second);
  }
  Block* block = new_block(device, cpu.nbytes());
  block->op = op;
  std::memcpy(block->memory, data.get(), cpu.nbytes());
  ++s->counters.copied_results;
  return device_data(block);
}

c10::DeviceAllocator& device_allocator() {
  static auto& allocator = *new DeviceMemory;
  return allocator;
}

c10::Allocator& kernel_allocator() {
  static auto& allocator = *new KernelMemory;
  return allocator;
}

at::HostAllocator& pinned_allocator() {
  static auto& allocator = *new PinnedMemory;
  return allocator;
}

void install_allocators() {
  former_allocator = c10::GetCPUAllocator();
  c10::SetCPUAllocator(&kernel_allocator(), /*priority=*/255);
}

Memory memory(int device) {
  const Locked s;
  return s->devices.at(static_cast<size_t>(device)).memory;
}

Memory pinned_memory() {
  const Locked s;
  return s->pinned;
}

Memory host_memory() {
  const Locked s;
  return s->host;
}

void reset_host_peak() {
  const Locked s;
  s->host.peak_allocated = s->host.allocated;
}

void set_budget(int device, int64_t bytes) {
  const Locked s;
  s->devices.at(static_cast<size_t>(device)).memory.budget = bytes;
}

}  // namespace finetune::sim
