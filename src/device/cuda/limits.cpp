#include "limits.h"

#include "finetune/core/error.h"

namespace finetune {

std::optional<std::string> too_old_a_device(int index, const std::string& name, int major, int minor) {
  // The kernels use what came with Ampere, and no machine code for older devices is in this library.
  constexpr int kLeastMajor = 8;
  if (major >= kLeastMajor) return std::nullopt;
  return "device " + std::to_string(index) + ", " + name + ", has compute capability " +
         std::to_string(major) + "." + std::to_string(minor) + ", and the kernels need " +
         std::to_string(kLeastMajor) + ".0 or later; hide it by CUDA_VISIBLE_DEVICES if another one is newer";
}

void check_shared_memory(int64_t needed, int64_t allowed, const std::string& name) {
  if (needed <= allowed) return;
  throw DeviceError("attention heads of this size need " + std::to_string(needed) +
                    " bytes of shared memory in this precision, and " + name + " has " +
                    std::to_string(allowed) +
                    "; set train.precision to bf16 or fp16, which need about half, or device to cpu");
}

}  // namespace finetune
