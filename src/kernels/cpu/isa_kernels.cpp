#include "isa_kernels.h"

#include <ATen/Version.h>

#include <array>
#include <string>

namespace finetune::kernels::cpu {

namespace DEFAULT {
const IsaKernels& kernel_table();
}
#if defined(FINETUNE_X86_KERNELS)
namespace AVX2 {
const IsaKernels& kernel_table();
}
namespace AVX512 {
const IsaKernels& kernel_table();
}
#endif

namespace {

struct IsaSet {
  std::string_view name;
  const IsaKernels& (*table)();  ///< to be called only where the machine has the set
};
/// Slowest first, so that each machine can run a first part of the list.
constexpr std::array kSets {
  IsaSet{"DEFAULT", DEFAULT::kernel_table},
#if defined(FINETUNE_X86_KERNELS)
      IsaSet{"AVX2", AVX2::kernel_table}, IsaSet{"AVX512", AVX512::kernel_table},
#endif
};

/// How many of `kSets` this process may use. LibTorch's own choice, which ATEN_CPU_CAPABILITY lowers.
size_t num_usable() {
  const std::string capability = at::get_cpu_capability();
  size_t usable = 1;
  for (size_t i = 0; i < kSets.size(); ++i) {
    if (capability == kSets[i].name) usable = i + 1;
  }
  return usable;
}

}  // namespace

const IsaKernels& isa_kernels() {
  static const IsaKernels& chosen = kSets[num_usable() - 1].table();
  return chosen;
}

const IsaKernels* find_isa_kernels(std::string_view name) {
  for (size_t i = 0; i < num_usable(); ++i) {
    if (name == kSets[i].name) return &kSets[i].table();
  }
  return nullptr;
}

}  // namespace finetune::kernels::cpu
