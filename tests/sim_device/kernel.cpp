#include "kernel.h"

#include <ATen/EmptyTensor.h>
#include <c10/util/Exception.h>

#include <utility>

#include "memory.h"
#include "order.h"
#include "recording.h"

namespace finetune::sim {

using at::Tensor;

Kernel::Kernel(const char* op, c10::Device device, int peer_device)
    : op_(op), device_(index_of(device)), peer_(peer_device) {}
Kernel::~Kernel() { restore_thread(); }

c10::Storage Kernel::map(const c10::Storage& storage) {
  c10::StorageImpl* device = storage.unsafeGetStorageImpl();
  if (const auto known = by_device_.find(device); known != by_device_.end())
    return storages_[known->second].cpu;
  Block* block = device->data_ptr() ? block_of(device->data_ptr(), op_) : nullptr;
  char* memory =
      block ? block->memory + (static_cast<const char*>(device->data()) - block->address) : nullptr;
  auto cpu =
      c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), device->nbytes(),
                                            c10::DataPtr(memory, c10::kCPU), &kernel_allocator(), true);
  by_device_[device] = by_cpu_[cpu.get()] = storages_.size();
  storages_.push_back({storage, c10::Storage(std::move(cpu)), block, memory});
  return storages_.back().cpu;
}

void Kernel::check_operand(const Tensor& tensor) const {
  const auto device = tensor.device();
  if (!tensor.is_privateuseone() || (device.index() != device_ && device.index() != peer_)) {
    const Locked s;
    ++s->counters.foreign_operands;
    TORCH_CHECK(false, "sim: ", op_, " runs on sim:", device_, " but got a ", tensor.toString(),
                tensor.sizes(), " on ", device);
  }
  TORCH_CHECK(tensor.layout() == c10::kStrided, "sim: ", op_, " got a tensor of layout ", tensor.layout());
}

Tensor Kernel::map(const Tensor& tensor, Use use) {
  if (!tensor.defined()) return tensor;
  const bool is_wrapped_number = tensor.unsafeGetTensorImpl()->is_wrapped_number();
  if (tensor.is_cpu() && tensor.dim() == 0) {
    const Locked s;
    s->counters.cpu_scalars += is_wrapped_number ? 0 : 1;
    return tensor;
  }
  check_operand(tensor);
  auto cpu = at::detail::make_tensor<c10::TensorImpl>(map(tensor.storage()), kCpuKeys, tensor.dtype());
  cpu.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  if (is_wrapped_number) cpu.unsafeGetTensorImpl()->set_wrapped_number(true);
  if (tensor.is_conj()) cpu._set_conj(true);
  if (tensor.is_neg()) cpu._set_neg(true);
  tensors_.push_back({tensor, cpu, use});
  return cpu;
}

void Kernel::launch(Work work) {
  if (work == Work::kKernel)
    fail_if_asked(Operation::kLaunch, c10::str("the launch of ", op_, " on sim:", device_));
  const Locked s;
  const int queue = current_queue(device_);
  Clock& clock = s->clocks[static_cast<size_t>(queue)];
  join(clock, s->host_clock);
  if (peer_ >= 0) join(clock, s->clocks[static_cast<size_t>(current_queue(peer_))]);
  if (work != Work::kMetadata) {
    ++clock[static_cast<size_t>(queue)];
    ++s->launches[op_];
    s->counters.kernels += work == Work::kKernel ? 1 : 0;
  }
  note_accesses(queue);
  if (peer_ >= 0) join(s->clocks[static_cast<size_t>(current_queue(peer_))], clock);
  ThreadState& thread = this_thread();
  saved_kernel_ = std::exchange(thread.kernel_device, device_);
  saved_device_ = std::exchange(thread.device, device_);
  saved_op_ = std::exchange(thread.op, op_);
  running_ = true;
}

void Kernel::note_accesses(int queue) const {
  for (const MappedTensor& mapped : tensors_) {
    const Tensor& tensor = mapped.device;
    if (mapped.use == kNone || tensor.numel() == 0) continue;
    const MappedStorage& storage = storages_[by_device_.at(tensor.storage().unsafeGetStorageImpl())];
    auto& block = *static_cast<Block*>(storage.block);
    const size_t item = tensor.itemsize();
    const auto base = static_cast<size_t>(static_cast<const char*>(storage.memory) - block.memory);
    const size_t begin = base + static_cast<size_t>(tensor.storage_offset()) * item;
    if (mapped.use == kWrite) keep_contents(block);
    const size_t length = at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), item);
    note_access(block, begin, begin + length, mapped.use == kWrite, queue, op_);
  }
}

void Kernel::restore_thread() {
  if (!std::exchange(running_, false)) return;
  ThreadState& thread = this_thread();
  thread.kernel_device = saved_kernel_;
  thread.device = saved_device_;
  thread.op = saved_op_;
}

c10::Storage Kernel::device_storage(const c10::Storage& cpu) {
  c10::StorageImpl* impl = cpu.unsafeGetStorageImpl();
  if (const auto known = by_cpu_.find(impl); known != by_cpu_.end()) return storages_[known->second].device;
  const size_t bytes = impl->nbytes();
  c10::Storage device(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), bytes, take_data(*impl, device_, op_), &device_allocator(), true));
  by_cpu_[impl] = storages_.size();
  storages_.push_back({device, cpu, nullptr, impl->data()});
  return device;
}

void Kernel::finish() {
  restore_thread();
  for (const MappedStorage& mapped : storages_) {
    c10::StorageImpl* cpu = mapped.cpu.unsafeGetStorageImpl();
    if (cpu->data() == mapped.memory) continue;
    mapped.device.unsafeGetStorageImpl()->set_data_ptr_noswap(take_data(*cpu, device_, op_));
    mapped.device.unsafeGetStorageImpl()->set_nbytes(cpu->nbytes());
  }
  for (const MappedTensor& mapped : tensors_) {
    if (mapped.use == kRead) continue;
    const Tensor& cpu = mapped.cpu;
    c10::TensorImpl* device = mapped.device.unsafeGetTensorImpl();
    const c10::Storage storage = device_storage(cpu.storage());
    if (!storage.is_alias_of(device->storage())) device->set_storage_keep_dtype(storage);
    if (cpu.sizes() != device->sizes() || cpu.strides() != device->strides() ||
        cpu.storage_offset() != device->storage_offset()) {
      device->set_sizes_and_strides(cpu.sizes(), cpu.strides(), cpu.storage_offset());
    }
  }
}

Tensor Kernel::wrap(const Tensor& cpu) {
  if (!cpu.defined()) return cpu;
  for (const MappedTensor& mapped : tensors_) {
    if (mapped.cpu.is_same(cpu)) return mapped.device;
  }
  auto device =
      at::detail::make_tensor<c10::TensorImpl>(device_storage(cpu.storage()), kSimKeys, cpu.dtype());
  device.unsafeGetTensorImpl()->set_sizes_and_strides(cpu.sizes(), cpu.strides(), cpu.storage_offset());
  if (cpu.is_conj()) device._set_conj(true);
  if (cpu.is_neg()) device._set_neg(true);
  return device;
}

}  // namespace finetune::sim
