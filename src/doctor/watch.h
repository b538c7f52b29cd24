#pragma once

#include <ATen/record_function.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <atomic>
#include <cstdint>
#include <memory>

namespace finetune::doctor {

/// Counts, on every thread, what operators do while it lives. One at a time.
class OperatorWatch {
 public:
  OperatorWatch();
  ~OperatorWatch();
  OperatorWatch(const OperatorWatch&) = delete;
  OperatorWatch& operator=(const OperatorWatch&) = delete;

  /// Operators that did work of their own: no views, no allocations, none that only called others. On a GPU
  /// each is at least one launch.
  int64_t launches() const;

  /// Values and blocking copies taken from a device that is not the host.
  int64_t host_reads() const;

 private:
  at::CallbackHandle handle_;
};

/// Follows a device's allocations, made on this thread or by a backward pass that it starts, while it lives.
class MemoryWatch {
 public:
  explicit MemoryWatch(c10::Device device);
  ~MemoryWatch();
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;

  /// Most bytes held at once, counted from the watch's beginning; 0 where the device's allocator does not
  /// report.
  int64_t peak() const;

 private:
  class Ledger;
  std::shared_ptr<Ledger> ledger_;
  c10::DebugInfoGuard guard_;
  int log_level_;
};

}  // namespace finetune::doctor
