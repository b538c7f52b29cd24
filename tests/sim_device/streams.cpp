#include "streams.h"

#include <c10/util/Exception.h>

#include "memory.h"
#include "order.h"

namespace finetune::sim {
namespace {

using c10::Device;
using c10::DeviceIndex;
using c10::Stream;

Stream stream(int device, int id) { return Stream(Stream::UNSAFE, sim_device(device), id); }

EventState& event_state(void* event) { return *static_cast<EventState*>(event); }

Clock& clock_of(const Stream& on) { return state().clocks[static_cast<size_t>(queue_of(on))]; }

/// Work counts as unfinished for two polls out of three, so that code must cope with both answers.
bool finished(const Clock& clock) {
  const Locked s;
  Clock all = s->host_clock;
  join(all, clock);
  if (all == s->host_clock) return true;
  if (++s->polls % 3 != 0) return false;
  join(s->host_clock, clock);
  land_copies(s->host_clock);
  return true;
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::kPrivateUse1; }
  DeviceIndex deviceCount() const noexcept override { return kDevices; }
  Device getDevice() const override { return sim_device(this_thread().device); }
  void setDevice(Device device) const override {
    TORCH_CHECK(device.index() < kDevices, "sim: there is no device ", device);
    if (device.has_index()) this_thread().device = device.index();
  }
  void uncheckedSetDevice(Device device) const noexcept override { this_thread().device = device.index(); }
  Device exchangeDevice(Device device) const override {
    const Device old = getDevice();
    setDevice(device);
    return old;
  }

  Stream getStream(Device device) const override {
    const int index = index_of(device);
    return stream(index, this_thread().stream[static_cast<size_t>(index)]);
  }
  Stream getDefaultStream(Device device) const override { return stream(index_of(device), 0); }
  Stream getNewStream(Device device, int) const override {
    const Locked s;
    const int index = index_of(device);
    return stream(index, 1 + s->devices[static_cast<size_t>(index)].next_stream++ % (kStreams - 1));
  }
  Stream getStreamFromGlobalPool(Device device, bool) const override { return getNewStream(device, 0); }
  Stream exchangeStream(Stream to) const override {
    const Stream old = getStream(to.device());
    this_thread().stream[static_cast<size_t>(to.device_index())] = static_cast<int>(to.id());
    return old;
  }

  void record(void** event, const Stream& on, DeviceIndex, c10::EventFlag) const override {
    const Locked s;
    if (!*event) *event = new EventState;
    Clock clock = clock_of(on);
    join(clock, s->host_clock);
    event_state(*event) = {clock, std::chrono::steady_clock::now()};
  }
  void block(void* event, const Stream& on) const override {
    const Locked s;
    if (event) join(clock_of(on), event_state(event).clock);
  }
  void destroyEvent(void* event, DeviceIndex) const noexcept override {
    delete static_cast<EventState*>(event);
  }
  bool queryEvent(void* event) const override { return !event || finished(event_state(event).clock); }
  bool queryStream(const Stream& on) const override { return finished(clock_of(on)); }
  void synchronizeEvent(void* event) const override {
    if (event) host_syncs(event_state(event).clock, "an event synchronisation");
  }
  void synchronizeStream(const Stream& on) const override {
    host_syncs(clock_of(on), "a stream synchronisation");
  }
  void synchronizeDevice(DeviceIndex device) const override {
    const Locked s;
    Clock all{};
    for (int id = 0; id < kStreams; ++id) join(all, s->clocks[static_cast<size_t>(device * kStreams + id)]);
    host_syncs(all, "a device synchronisation");
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const Stream& on) const override {
    device_allocator().recordStream(data, on);
  }
  double elapsedTime(void* from, void* to, DeviceIndex) const override {
    const auto time = event_state(to).when - event_state(from).when;
    return std::chrono::duration<double, std::milli>(time).count();
  }
  c10::DeviceCapability getDeviceCapability(Device) const override { return {}; }
};

}  // namespace

c10::impl::DeviceGuardImplInterface& device_guard() {
  static auto& guard = *new Guard;
  return guard;
}

}  // namespace finetune::sim
