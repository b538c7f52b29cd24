#include "finetune/device/transfer.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace finetune {
namespace {

c10::Stream current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

}  // namespace

DeviceEvent::DeviceEvent(c10::Device device) : device_(device) {
  if (!device.is_cpu()) event_.emplace(device.type());
}

void DeviceEvent::record() {
  if (event_) event_->record(current_stream(device_));
}

void DeviceEvent::block() const {
  if (event_) event_->block(current_stream(device_));
}

bool DeviceEvent::reached() const { return !event_ || event_->query(); }

void DeviceEvent::synchronize() const {
  if (event_) event_->synchronize();
}

at::Tensor staging_buffer(at::IntArrayRef sizes, at::ScalarType dtype, c10::Device device) {
  return at::empty(sizes, at::TensorOptions().dtype(dtype).pinned_memory(!device.is_cpu()));
}

AsyncRead::AsyncRead(const at::Tensor& source)
    : host_(staging_buffer(source.sizes(), source.scalar_type(), source.device())), event_(source.device()) {
  TORCH_CHECK(source.is_contiguous(), "AsyncRead: only a contiguous tensor is copied without waiting");
  host_.copy_(source, /*non_blocking=*/true);
  event_.record();
}

const at::Tensor& AsyncRead::wait() const {
  event_.synchronize();
  return host_;
}

at::Tensor upload(const at::Tensor& host, c10::Device device) {
  at::Tensor staged = staging_buffer(host.sizes(), host.scalar_type(), device);
  staged.copy_(host);
  if (device.is_cpu()) return staged;
  return staged.to(device, /*non_blocking=*/true);
}

}  // namespace finetune
