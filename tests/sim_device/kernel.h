#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <unordered_map>
#include <vector>

namespace finetune::sim {

/// One launch on the device's current stream; for kernels written by hand for PrivateUse1.
///
///     sim::Kernel kernel("finetune::scale_", x.device());
///     at::Tensor memory = kernel.map(x, sim::Kernel::kWrite);  // a CPU tensor over the same bytes
///     kernel.launch();                                         // race check; new CPU tensors are now device
///     memory memory.mul_(2); kernel.finish();                                         // then `wrap` what
///     the kernel returns
class Kernel {
 public:
  enum Use { kNone, kRead, kWrite };
  /// A transfer is ordered like a kernel but not counted as one; metadata changes touch no bytes.
  enum class Work { kKernel, kTransfer, kMetadata };

  /// op: lives as long as the process. peer_device: the other device of a copy between two.
  Kernel(const char* op, c10::Device device, int peer_device = -1);
  ~Kernel();
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  /// A CPU tensor over the operand's bytes. Throws where it lies on another device; 0-dim CPU tensors pass.
  at::Tensor map(const at::Tensor& tensor, Use use);
  c10::Storage map(const c10::Storage& storage);
  void launch(Work work = Work::kKernel);
  /// Carries over to the device's tensors what the kernel did to its own besides writing: resizing, set_.
  void finish();
  at::Tensor wrap(const at::Tensor& cpu_result);

 private:
  struct MappedStorage {
    c10::Storage device, cpu;
    void* block;
    const void* memory;
  };
  struct MappedTensor {
    at::Tensor device, cpu;
    Use use;
  };
  void check_operand(const at::Tensor& tensor) const;
  void note_accesses(int queue) const;
  c10::Storage device_storage(const c10::Storage& cpu);
  void restore_thread();

  const char* op_;
  int device_, peer_;
  bool running_ = false;
  int saved_kernel_ = -1, saved_device_ = 0;
  const char* saved_op_ = nullptr;
  std::vector<MappedTensor> tensors_;
  std::vector<MappedStorage> storages_;
  std::unordered_map<const c10::StorageImpl*, size_t> by_device_, by_cpu_;
};

}  // namespace finetune::sim
