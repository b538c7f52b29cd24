#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/Event.h>

#include <optional>
#include <vector>

namespace finetune {

/// A point in the work queued on a device, on whichever stream is current when it is recorded. On the CPU,
/// where work is over when its call returns, it is always reached.
class DeviceEvent {
 public:
  explicit DeviceEvent(c10::Device device);

  /// Marks what has been queued on the current stream so far.
  void record();
  /// Makes the current stream wait for the mark. The host does not wait.
  void block() const;
  /// Whether the device has come so far. Does not wait.
  bool reached() const;
  /// Makes the host wait for it.
  void synchronize() const;

 private:
  c10::Device device_;
  std::optional<c10::Event> event_;  ///< none on the CPU
};

/// Host memory that `device` copies from and to while the host goes on: pinned; for the CPU plain memory.
at::Tensor staging_buffer(at::IntArrayRef sizes, at::ScalarType dtype, c10::Device device);

/// A copy of a tensor on its way to the host. The tensor may be overwritten or freed meanwhile by work queued
/// on the same stream.
class AsyncRead {
 public:
  /// Queues the copy of `source`, which is contiguous. Does not wait.
  explicit AsyncRead(const at::Tensor& source);

  bool arrived() const { return event_.reached(); }
  /// The values, on the CPU, once they are there: makes the host wait until then.
  const at::Tensor& wait() const;

 private:
  at::Tensor host_;
  DeviceEvent event_;
};

/// A host tensor's copy on `device`, by way of pinned memory. The host does not wait for the device, and may
/// change or free `host` at once.
at::Tensor upload(const at::Tensor& host, c10::Device device);

template <typename T>
at::Tensor upload(const std::vector<T>& values, c10::Device device) {
  return upload(at::from_blob(const_cast<T*>(values.data()), {static_cast<int64_t>(values.size())},
                              c10::CppTypeToScalarType<T>::value),
                device);
}

}  // namespace finetune
