#include "finetune/train/precision.h"

#include <ATen/Context.h>

#include "finetune/core/error.h"
#include "finetune/core/log.h"

namespace finetune {
namespace {

struct Format {
  Precision precision;
  const char* name;
  at::ScalarType activations;
};

constexpr Format kFormats[] = {{Precision::kFp32, "fp32", at::kFloat},
                               {Precision::kTf32, "tf32", at::kFloat},
                               {Precision::kBf16, "bf16", at::kBFloat16},
                               {Precision::kFp16, "fp16", at::kHalf}};

/// On a CPU float32 stays the choice even where bfloat16 is faster: its numbers are the reference's.
Precision choose(const OpenDevice& device) {
  if (device.device.is_cpu()) return Precision::kFp32;
  return device.services->has_fast_bf16(device.device) ? Precision::kBf16 : Precision::kFp32;
}

const Format& format_of(Precision precision) {
  for (const Format& format : kFormats) {
    if (format.precision == precision) return format;
  }
  TORCH_INTERNAL_ASSERT(false, "a precision without a format");
}

std::optional<Precision> named(const std::optional<std::string>& name) {
  for (const Format& format : kFormats) {
    if (name == format.name) return format.precision;
  }
  return std::nullopt;
}

void say_what_is_slow(const Format& format, const OpenDevice& device) {
  const bool low = format.activations != at::kFloat;
  if (!low || !device.device.is_cpu()) return;
  if (format.precision == Precision::kFp16) {
    spdlog::warn("train.precision fp16 is for GPUs and slow on a CPU; use bf16 or fp32");
  } else if (!device.services->has_fast_bf16(device.device)) {
    spdlog::warn("this CPU has no bf16 instructions: bf16 is slower than fp32 here; use fp32");
  }
}

}  // namespace

ResolvedPrecision resolve_precision(Precision requested, const OpenDevice& device,
                                    const std::optional<std::string>& saved) {
  if (requested == Precision::kAuto) requested = named(saved).value_or(choose(device));
  const Format& format = format_of(requested);
  if (requested == Precision::kTf32) {
    if (!device.device.is_cuda()) {
      throw ConfigError("/train/precision: tf32 is a format of NVIDIA GPUs, the device is " +
                        device.device.str() + "; use fp32");
    }
    at::globalContext().setFloat32MatmulPrecision("high");
  }
  say_what_is_slow(format, device);
  return {.precision = requested,
          .name = format.name,
          .activations = format.activations,
          .scales_loss = requested == Precision::kFp16};
}

}  // namespace finetune
