#include "isa_kernels.h"

#include <ATen/Version.h>

#include <array>
#include <string>

namespace finetune::kernels::cpu {

namespace DEFAULT {
extern const IsaKernels kTable;
}
#if defined(FINETUNE_X86_KERNELS)
namespace AVX2 {
extern const IsaKernels kTable;
}
namespace AVX512 {
extern const IsaKernels kTable;
}
#endif

namespace {

/// Slowest first, so that each machine can run a first part of the list.
constexpr std::array kTables {
  &DEFAULT::kTable,
#if defined(FINETUNE_X86_KERNELS)
      &AVX2::kTable, &AVX512::kTable,
#endif
};

/// How many of `kTables` this process may use. LibTorch's own choice, which ATEN_CPU_CAPABILITY lowers.
size_t num_usable() {
  const std::string capability = at::get_cpu_capability();
  size_t usable = 1;
  for (size_t i = 0; i < kTables.size(); ++i) {
    if (capability == kTables[i]->name) usable = i + 1;
  }
  return usable;
}

}  // namespace

const IsaKernels& isa_kernels() {
  static const IsaKernels* const chosen = kTables[num_usable() - 1];
  return *chosen;
}

const IsaKernels* find_isa_kernels(std::string_view name) {
  for (size_t i = 0; i < num_usable(); ++i) {
    if (name == kTables[i]->name) return kTables[i];
  }
  return nullptr;
}

}  // namespace finetune::kernels::cpu
