#include "kernels.h"

#if defined(__x86_64__)
/// Takes the place of the function of the same name in LibTorch's MKL, which asks it whether the processor is
/// Intel's and else uses slower products, whatever instructions there are. MKL still tests for the
/// instructions: on AMD's Zen 3 its AVX2 products of this program's shapes take a quarter less time. It lies
/// here because this file is part of every program that runs a kernel.
extern "C" int mkl_serv_intel_cpu_true();
int mkl_serv_intel_cpu_true() { return 1; }
#endif

namespace finetune::kernels::cpu {

void register_kernels(torch::Library& library) {
#define FINETUNE_REGISTER_KERNEL(name) library.impl(#name, TORCH_FN(name));
  FINETUNE_FOR_EACH_OPERATOR(FINETUNE_REGISTER_KERNEL)
#undef FINETUNE_REGISTER_KERNEL
}

}  // namespace finetune::kernels::cpu
