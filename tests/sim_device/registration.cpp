/// Makes the device known to LibTorch when the library is loaded.

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <sys/mman.h>
#include <torch/library.h>

#include <algorithm>
#include <cstring>

#include "copies.h"
#include "fallback.h"
#include "generator.h"
#include "kernel.h"
#include "memory.h"
#include "streams.h"

namespace finetune::sim {
namespace {

using c10::DeviceIndex;
using c10::DispatchKey;

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const override { return kDevices; }
  DeviceIndex getCurrentDevice() const override { return static_cast<DeviceIndex>(this_thread().device); }
  void setCurrentDevice(DeviceIndex index) const override { device_guard().setDevice(sim_device(index)); }
  DeviceIndex exchangeDevice(DeviceIndex index) const override {
    return device_guard().exchangeDevice(sim_device(index)).index();
  }
  DeviceIndex maybeExchangeDevice(DeviceIndex index) const override {
    return index < 0 || index >= kDevices ? getCurrentDevice() : exchangeDevice(index);
  }
  const at::Generator& getDefaultGenerator(DeviceIndex index) const override {
    return state().devices.at(static_cast<size_t>(index < 0 ? this_thread().device : index)).generator;
  }
  at::Generator getNewGenerator(DeviceIndex index) const override {
    return make_generator(index < 0 ? this_thread().device : index);
  }
  c10::Device getDeviceFromPtr(void* address) const override {
    return sim_device(block_of(c10::DataPtr(address, c10::kCPU), "from_blob")->device);
  }
  bool isPinnedPtr(const void* address) const override { return pinned_block(address) != nullptr; }
  at::Allocator* getPinnedMemoryAllocator() const override { return &pinned_allocator(); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    Kernel kernel("storage.resize_", storage.device());
    const c10::Storage cpu = kernel.map(storage);
    kernel.launch(Kernel::Work::kMetadata);
    c10::DataPtr data = kernel_allocator().allocate(bytes);
    if (bytes > 0) std::memcpy(data.get(), cpu.data(), std::min(bytes, cpu.nbytes()));
    cpu.unsafeGetStorageImpl()->set_data_ptr_noswap(std::move(data));
    cpu.unsafeGetStorageImpl()->set_nbytes(bytes);
    kernel.finish();
  }
};

torch::CppFunction boxed() { return torch::CppFunction::makeFromBoxedFunction<&run_on_device>(); }

/// Lives as long as the process: destroying it would take the kernels away again.
torch::Library& library(const char* ns, DispatchKey key) {
  return *new torch::Library(torch::Library::IMPL, ns, key, __FILE__, __LINE__);
}

/// The fallback loses to composite kernels. Where the CPU has its own kernel, so has the device; it also has
/// the list kernels that only GPUs have, so that a list is one launch.
void register_operators() {
  torch::Library& aten = library("aten", DispatchKey::PrivateUse1);
  register_copies(aten);
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (!name.name.starts_with("aten::")) continue;
    const auto op = dispatcher.findSchema(name);
    const bool list = name.name.starts_with("aten::_foreach_") && name.name != "aten::_foreach_copy_";
    const bool wanted = op && (list || op->hasKernelForDispatchKey(DispatchKey::CPU));
    if (wanted && !op->hasKernelForDispatchKey(DispatchKey::PrivateUse1)) {
      aten.impl(c10::toString(name).c_str(), boxed());
    }
  }
  library("_", DispatchKey::PrivateUse1).fallback(boxed());
}

void register_autocast() {
  using namespace at;  // NOLINT: LibTorch's macros expect it
  library("_", DispatchKey::AutocastPrivateUse1).fallback(torch::CppFunction::makeFallthrough());
  auto& m = library("aten", DispatchKey::AutocastPrivateUse1);  // CUDA's lists; the macros name it m
#define FINETUNE_LOWER_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define FINETUNE_FP32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define FINETUNE_FP32_SET_OPT_DTYPE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define FINETUNE_PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_LOWER_PRECISION_FP(FINETUNE_LOWER_PRECISION)
  AT_FORALL_FP32(FINETUNE_FP32)
  AT_FORALL_FP32_SET_OPT_DTYPE(FINETUNE_FP32_SET_OPT_DTYPE)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
  AT_FORALL_PROMOTE(FINETUNE_PROMOTE)
#undef FINETUNE_PROMOTE
#undef FINETUNE_FP32_SET_OPT_DTYPE
#undef FINETUNE_FP32
#undef FINETUNE_LOWER_PRECISION
}

[[maybe_unused]] const bool installed = [] {
  c10::register_privateuse1_backend("sim");
  for (int index = 0; index < kDevices; ++index) {
    void* range = mmap(nullptr, kRangeBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    TORCH_CHECK(range != MAP_FAILED, "sim: cannot reserve address space");
    DeviceState& device = state().devices[static_cast<size_t>(index)];
    device.range = static_cast<char*>(range);
    device.generator = make_generator(index);
  }
  c10::impl::registerDeviceGuard(c10::kPrivateUse1, &device_guard());
  c10::SetAllocator(c10::kPrivateUse1, &device_allocator());
  install_allocators();
  at::setHostAllocator(at::kPrivateUse1, &pinned_allocator());
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  register_operators();
  register_autocast();
  return true;
}();

}  // namespace
}  // namespace finetune::sim
