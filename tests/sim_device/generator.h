#pragma once

#include <ATen/core/Generator.h>

#include <mutex>

namespace finetune::sim {

/// A generator of the device: a CPU generator of its own under the device's name.
at::Generator make_generator(int device);

/// The CPU generator within one of the device's.
at::Generator& cpu_generator(const at::Generator& generator);

/// For random operators without a generator argument: while it lives, the process's CPU generator continues
/// the device's sequence.
class BorrowedGenerator {
 public:
  explicit BorrowedGenerator(int device);
  ~BorrowedGenerator();
  BorrowedGenerator(const BorrowedGenerator&) = delete;
  BorrowedGenerator& operator=(const BorrowedGenerator&) = delete;

 private:
  void swap();

  std::lock_guard<std::mutex> lock_;
  at::Generator& device_;
};

}  // namespace finetune::sim
