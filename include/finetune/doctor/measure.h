#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "finetune/device/device.h"

namespace finetune::doctor {

/// How fast a device multiplies square matrices of one type.
struct ProductRate {
  std::string type{};  ///< "fp32", "tf32", "bf16", "fp16"
  int64_t size = 0;    ///< rows and columns of each matrix
  int64_t count = 0;
  double seconds = 0;                   ///< for all of them
  std::optional<double> utilization{};  ///< highest seen meanwhile, 0 to 1
  std::string why_not{};                ///< why nothing was measured; empty where something was

  /// 10^12 floating-point operations a second; 0 where nothing was measured.
  double tflops() const;
};

struct CopyRate {
  std::string kind{};  ///< "host to device, pinned", ...
  double bytes_per_second = 0;
};

/// What a device can do, measured on it.
struct DeviceMeasures {
  std::string device{};
  std::string description{};
  bool asynchronous = false;      ///< a call returns before its work is done
  double launch_seconds = 0;      ///< of the host, to queue one small operation
  double round_trip_seconds = 0;  ///< to queue one and wait for its result
  std::vector<ProductRate> products{};
  std::vector<CopyRate> copies{};

  /// 10^12 a second for a type; 0 where it was not measured.
  double tflops(const std::string& type) const;
};

/// Share of the last moments in which the device was busy, 0 to 1; nothing where there is no telling.
using Utilization = std::function<std::optional<double>()>;

/// Measures launch latency, copy rates and, for each type the device computes in, up to 100 products of
/// 4096 x 4096, or as many (and as large) as fit in `seconds_a_type`. Waits for the device.
DeviceMeasures measure_device(const OpenDevice& device, double seconds_a_type,
                              const Utilization& utilization);

}  // namespace finetune::doctor
