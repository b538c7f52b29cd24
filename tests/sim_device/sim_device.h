#pragma once

/// A simulated accelerator for tests: LibTorch's PrivateUse1 device under the name "sim", with the devices
/// sim:0 and sim:1. Linking or loading `libfinetune_sim.so` is enough.
///
/// Streams, events, guards and memory statistics are reached through LibTorch's own device-neutral API
/// (`c10::StreamGuard`, `c10::Event`, `at::accelerator::...`); this header adds what only a simulator knows.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace finetune::sim {

inline constexpr int kDevices = 2;
inline constexpr int kStreams = 8;  ///< per device; stream 0 is the default one

/// What happened since `reset_counters()`, over all devices. Bytes are payload, not rounded.
struct Counters {
  int64_t allocations = 0;       ///< on a device
  int64_t kernels = 0;           ///< launches; views, metadata changes and transfers are none
  int64_t host_reads = 0;        ///< the host waited for a value or a size, blocking copies included
  int64_t async_reads = 0;       ///< non-blocking copies into pinned memory
  int64_t uploads_pageable = 0;  ///< host-to-device copies that CUDA would run synchronously
  int64_t uploads_pinned = 0;    ///< from pinned memory, blocking or not
  int64_t upload_bytes = 0;
  int64_t download_bytes = 0;
  int64_t peer_copies = 0;  ///< between two sim devices
  int64_t host_waits =
      0;  ///< every time the host waited for a stream, for any reason above or by a sync call
  int64_t cpu_scalars = 0;       ///< 0-dim CPU tensors among a kernel's operands
  int64_t foreign_operands = 0;  ///< operands on another device; each of them also throws
  int64_t copied_results = 0;    ///< results that a CPU kernel left in host memory, copied to the device
  int64_t strict_sections = 0;   ///< begun; the program begins one for each training step
  std::map<std::string, int64_t> launches;  ///< per operator, e.g. "aten::add.out"
  std::map<std::string, int64_t> reads;     ///< host_reads per operator
};
Counters counters();
void reset_counters();

/// Bytes; on a device rounded up to 512 for each allocation, as CUDA's caching allocator does.
struct Memory {
  int64_t allocated = 0;
  int64_t peak_allocated = 0;
  int64_t reserved = 0;
  int64_t peak_reserved = 0;
  int64_t budget = 0;
};
Memory memory(int device);
Memory pinned_memory();

/// CPU tensors of at least `kCountedHostBytes` each that were allocated after the device was loaded.
inline constexpr int64_t kCountedHostBytes = 64 * 1024;
Memory host_memory();
void reset_host_peak();

/// Above `bytes` reserved, an allocation throws c10::OutOfMemoryError after dropping the cache. 0: no limit.
void set_budget(int device, int64_t bytes);

/// While one lives, what it forbids throws c10::Error with the operator's name, on every thread.
class StrictSection {
 public:
  enum Level {
    kNothing = 0,
    kReads = 1,
    kWaits = 2
  };  ///< kWaits also forbids blocking uploads and sync calls
  explicit StrictSection(Level level = kReads);
  ~StrictSection();
  StrictSection(const StrictSection&) = delete;
  StrictSection& operator=(const StrictSection&) = delete;

 private:
  int previous_;
};

/// Permits host reads on this thread inside a strict section: put one around a log point.
class AllowHostReads {
 public:
  AllowHostReads();
  ~AllowHostReads();
  AllowHostReads(const AllowHostReads&) = delete;
  AllowHostReads& operator=(const AllowHostReads&) = delete;
};

/// Reports since the last call: races between streams, early reuse, pinned buffers overwritten in flight.
std::vector<std::string> take_violations();

/// Throw c10::Error at the launch that races instead of only noting it (default: note).
void throw_on_violation(bool on);

/// What can be made to fail. A copy is one between the host and a device, or between two devices.
enum class Operation { kAllocation, kCopy, kLaunch };

/// Makes the `number`-th operation of a kind from now on (1: the next one) fail, once: an allocation with
/// c10::OutOfMemoryError, the others with c10::Error. 0: none.
void fail_on(Operation operation, int64_t number);

/// On a host access to device memory, print which device it was before dying by SIGSEGV.
void report_stray_accesses();

}  // namespace finetune::sim
