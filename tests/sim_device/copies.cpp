#include "copies.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>

#include <cstring>

#include "kernel.h"
#include "memory.h"
#include "order.h"
#include "recording.h"

namespace finetune::sim {
namespace {

using at::Tensor;
using c10::Device;

Device or_current(std::optional<Device> device) { return device.value_or(sim_device(this_thread().device)); }

Tensor empty(c10::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
             std::optional<Device> device, std::optional<bool> pin, std::optional<at::MemoryFormat> format) {
  TORCH_CHECK(!pin.value_or(false), "sim: only CPU tensors can be pinned");
  const c10::DeviceGuard guard(or_current(device));
  return at::detail::empty_generic(size, &device_allocator(), kSimKeys, c10::dtype_or_default(dtype), format);
}

Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                     std::optional<at::Layout>, std::optional<Device> device, std::optional<bool>) {
  const c10::DeviceGuard guard(or_current(device));
  return at::detail::empty_strided_generic(size, stride, &device_allocator(), kSimKeys,
                                           c10::dtype_or_default(dtype));
}

Tensor as_strided(const Tensor& self, c10::IntArrayRef size, c10::IntArrayRef stride,
                  std::optional<int64_t> offset) {
  auto view = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(self.storage()),
                                                       self.key_set(), self.dtype());
  view.unsafeGetTensorImpl()->set_sizes_and_strides(size, stride, offset.value_or(self.storage_offset()));
  return view;
}

/// A copy that involves the device, under CUDA's rules: only a non-blocking one between the device and pinned
/// memory, contiguous and of one type, leaves the host free; one between devices orders the two current
/// streams.
struct Copy {
  const Tensor &from, &to;
  bool upload, download, peer;
  Block* pinned;  ///< the host's side, where it is pinned
  bool async;

  Copy(const Tensor& source, const Tensor& target, bool non_blocking)
      : from(source),
        to(target),
        upload(source.is_cpu()),
        download(target.is_cpu()),
        peer(!upload && !download && source.device() != target.device()),
        pinned(upload || download ? pinned_block(host_side().const_data_ptr()) : nullptr),
        async(non_blocking && pinned && is_simple()) {}

  const Tensor& device_side() const { return upload ? to : from; }
  const Tensor& host_side() const { return upload ? from : to; }
  bool crosses() const { return upload || download || peer; }
  const char* name() const {
    return upload     ? "copy to device"
           : download ? "copy to host"
           : peer     ? "copy between devices"
                      : "aten::copy_";
  }

 private:
  bool is_simple() const {
    return from.is_contiguous() && to.is_contiguous() && from.scalar_type() == to.scalar_type() &&
           from.sizes() == to.sizes() && from.numel() > 0;
  }
};

void count(const Copy& copy, int device) {
  const Locked s;
  if (copy.download && !copy.async) host_reads("a copy to the host", device);
  if (copy.upload && !copy.async) check_strict(StrictSection::kWaits, "a blocking copy to the device");
  Counters& counters = s->counters;
  counters.uploads_pinned += copy.upload && copy.pinned ? 1 : 0;
  counters.uploads_pageable += copy.upload && !copy.pinned ? 1 : 0;
  counters.async_reads += copy.download && copy.async ? 1 : 0;
  counters.peer_copies += copy.peer ? 1 : 0;
  const auto bytes = static_cast<int64_t>(copy.host_side().nbytes());
  if (copy.upload) counters.upload_bytes += bytes;
  if (copy.download) counters.download_bytes += bytes;
}

Tensor copy_from(const Tensor& from, const Tensor& to, bool non_blocking) {
  const Copy copy(from, to, non_blocking);
  const Device device = copy.device_side().device();
  const int queue = current_queue(device.index());
  if (copy.crosses()) {
    refuse_while_recording(copy.name());
    fail_if_asked(Operation::kCopy, c10::str("a ", copy.name(), " of ", to.nbytes(), " bytes, ", device));
  }
  const Locked s;
  count(copy, device.index());
  Kernel kernel(copy.name(), device, copy.peer ? to.device().index() : -1);
  const Tensor source = copy.upload ? from : kernel.map(from, Kernel::kRead);
  const Tensor target = copy.download ? to : kernel.map(to, Kernel::kWrite);
  kernel.launch(copy.crosses() ? Kernel::Work::kTransfer : Kernel::Work::kKernel);
  const Clock& clock = s->clocks[static_cast<size_t>(queue)];
  const uint64_t now = clock[static_cast<size_t>(queue)];
  if (copy.pinned) {
    const auto begin = static_cast<size_t>(static_cast<const char*>(copy.host_side().const_data_ptr()) -
                                           copy.pinned->address);
    note_access(*copy.pinned, begin, begin + copy.host_side().nbytes(), copy.download, queue, copy.name());
    land_copies(clock, copy.pinned);
  }
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  if (copy.download && copy.async) {
    kernel.finish();
    s->in_flight.push_back({queue, now, to, source.clone(), 0});
    std::memset(to.data_ptr(), 0xFF, to.nbytes());
    return to;
  }
  target.copy_(source);
  kernel.finish();
  if (recording())
    note_launch([from = unattached(from), to = unattached(to)] { copy_from(from, to, false); });
  if (copy.upload && copy.async) s->in_flight.push_back({queue, now, from, {}, checksum(from)});
  if ((copy.upload || copy.download) && !copy.async) host_waits_for(clock);
  return to;
}

Tensor& copy_(Tensor& to, const Tensor& from, bool non_blocking) {
  if (!to.is_same(from)) copy_from(from, to, non_blocking);
  return to;
}

void record_stream(Tensor& self, c10::Stream stream) {
  device_allocator().recordStream(self.storage().data_ptr(), stream);
}

}  // namespace

void register_copies(torch::Library& aten) {
  aten.impl("empty.memory_format", &empty);
  aten.impl("empty_strided", &empty_strided);
  aten.impl("as_strided", &as_strided);
  aten.impl("copy_", &copy_);
  aten.impl("_copy_from", &copy_from);
  aten.impl("record_stream", &record_stream);
}

}  // namespace finetune::sim
