#include "tensor_memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <malloc.h>

#include <limits>
#include <mutex>

#include "block_region.h"

namespace finetune {
namespace {

constexpr size_t kLargeBlock = size_t{256} << 10;
constexpr size_t kAddresses = size_t{1} << 40;

class TensorMemory final : public c10::Allocator {
 public:
  explicit TensorMemory(c10::Allocator* small) : small_(small), region_(kAddresses) {}

  c10::DataPtr allocate(size_t size) override;
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t count) const override {
    default_copy_data(to, from, count);
  }

  void release_unused() {
    const std::lock_guard lock(mutex_);
    region_.release_unused();
  }

 private:
  static void release(void* block);

  c10::Allocator* small_;
  std::mutex mutex_;
  BlockRegion region_;
};

/// Never destroyed: tensors of static lifetime are freed after everything else.
TensorMemory*& tensor_memory() {
  static TensorMemory* memory = nullptr;
  return memory;
}

c10::DataPtr TensorMemory::allocate(size_t size) {
  void* block = nullptr;
  if (size >= kLargeBlock) {
    const std::lock_guard lock(mutex_);
    block = region_.take(size);
  }
  if (block == nullptr) block = small_->raw_allocate(size);  // it throws where there is no memory
  return {block, block, &release, c10::Device(c10::kCPU)};
}

void TensorMemory::release(void* block) {
  TensorMemory& memory = *tensor_memory();
  if (memory.region_.contains(block)) {
    const std::lock_guard lock(memory.mutex_);
    memory.region_.give_back(block);
  } else if (block != nullptr) {
    memory.small_->raw_deallocate(block);
  }
}

/// A step frees what the next one allocates again. By default the C library gives such memory back to the
/// system in between, and the system clears every page of it anew.
void keep_small_blocks() {
#ifdef __GLIBC__
  constexpr int kLargestThreshold = 32 << 20;  // more is refused
  ::mallopt(M_MMAP_THRESHOLD, kLargestThreshold);
  ::mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
#endif
}

}  // namespace

void keep_tensor_memory() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  static const bool once = [] {
    keep_small_blocks();
    tensor_memory() = new TensorMemory(c10::GetCPUAllocator());
    c10::SetCPUAllocator(tensor_memory());
    return true;
  }();
  (void)once;
#endif
}

void release_tensor_memory() {
  if (tensor_memory() != nullptr) tensor_memory()->release_unused();
}

}  // namespace finetune
