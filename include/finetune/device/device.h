#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "finetune/core/json.h"

namespace finetune {

/// Bytes of a device's memory held by this process. On the CPU: resident memory.
struct MemoryStats {
  int64_t allocated = 0;
  int64_t reserved = 0;
  int64_t peak = 0;
};

/// How busy a device is, and what it draws; unset where the device does not tell.
struct DeviceUse {
  std::optional<double> utilization;  ///< share of the last moments in which some kernel ran, 0 to 1
  std::optional<double> power_w;
};

/// Work of a device that was recorded once and is repeated by one launch.
class RecordedWork {
 public:
  virtual ~RecordedWork() = default;
  /// Queues the work on the current stream. Does not wait for it.
  virtual void replay() = 0;
};

/// What else than tensor operations is needed of a device: one implementation in the binary (CPU), others in
/// plugins.
class DeviceServices {
 public:
  virtual ~DeviceServices() = default;
  virtual MemoryStats memory(c10::Device device) const = 0;
  /// Asked once a log point, so it must not wait for the device.
  virtual DeviceUse use(c10::Device /*device*/) const { return {}; }
  /// Waits for all work queued on the device. Never called between two log points.
  virtual void synchronize(c10::Device device) const = 0;
  /// One line: "NVIDIA H200, 139 GiB", "AMD EPYC, 2 threads, AVX2".
  virtual std::string describe(c10::Device device) const = 0;
  /// Whether the device multiplies bfloat16 matrices faster than float32 ones.
  virtual bool has_fast_bf16(c10::Device /*device*/) const { return false; }
  /// From `true` to `false` nothing may read a value back from any device of this type. One that watches over
  /// it throws at such a read and names the operator; by default nothing is watched.
  virtual void forbid_host_reads(bool /*forbidden*/) const {}
  /// Records what `work` queues on the device instead of running it; null where the device cannot.
  ///
  /// A repetition reads and writes the same addresses, and gets the same numbers from the host. So `work`
  /// must neither wait for the device nor copy from or to the host, and what it leaves behind must lie in
  /// tensors that were there before: all recordings of a device share the memory of what they allocate.
  /// Throws what `work` throws, and then nothing has been run.
  virtual std::unique_ptr<RecordedWork> record(c10::Device /*device*/,
                                               const std::function<void()>& /*work*/) const {
    return nullptr;
  }
};

/// Forbids host reads for as long as it lives: around everything between two log points.
class NoHostReads {
 public:
  explicit NoHostReads(const DeviceServices& services) : services_(services) {
    services_.forbid_host_reads(true);
  }
  ~NoHostReads() { services_.forbid_host_reads(false); }
  NoHostReads(const NoHostReads&) = delete;
  NoHostReads& operator=(const NoHostReads&) = delete;

 private:
  const DeviceServices& services_;
};

/// A device in use, and why it is this one.
struct OpenDevice {
  c10::Device device;
  const DeviceServices* services;  ///< lives as long as the process
  std::string reason;              ///< "asked for", "no NVIDIA driver", ...
};

/// Opens the device a config asks for (`auto`, `cpu`, `cuda`, `cuda:1`), loading the plugin it needs, and
/// sets the number of threads (0: every core this process may use). Throws `DeviceError` with the cause and
/// the remedy where it cannot be used; `auto` falls back to the CPU and says why.
OpenDevice open_device(const std::string& request, int64_t threads);

/// Threads, instruction set and versions: what a run's log begins with.
Json describe_environment(const OpenDevice& device);

/// The processor's features as the kernel lists them ("avx2", "avx512_bf16", "asimd", ...).
std::vector<std::string> cpu_features();

/// The number of threads that `threads: 0` stands for: the cores this process may run on.
int64_t available_threads();

}  // namespace finetune
