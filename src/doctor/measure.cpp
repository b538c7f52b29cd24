#include "finetune/doctor/measure.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "finetune/core/clock.h"

namespace finetune::doctor {
namespace {

constexpr int64_t kMostProducts = 100;
constexpr int64_t kLargestProduct = 4096;
constexpr int64_t kSmallestProduct = 256;
/// NVML averages over a sixth of a second: shorter work is not seen.
constexpr double kUtilizationSeconds = 0.6;

class Meter {
 public:
  explicit Meter(const OpenDevice& device) : device_(device) {}

  void synchronize() const { device_.services->synchronize(device_.device); }

  at::Tensor tensor(at::IntArrayRef sizes, at::ScalarType type) const {
    return at::full(sizes, 0.5, at::TensorOptions(type).device(device_.device));
  }

  /// Seconds of one run of `work`, the device's included.
  template <typename Work>
  double seconds(const Work& work) const {
    synchronize();
    const double began = monotonic_seconds();
    work();
    synchronize();
    return monotonic_seconds() - began;
  }

  c10::Device device() const { return device_.device; }

 private:
  const OpenDevice& device_;
};

/// TF32 for as long as it lives.
class AllowTf32 {
 public:
  explicit AllowTf32(bool allowed) : before_(at::globalContext().allowTF32CuBLAS()) {
    at::globalContext().setAllowTF32CuBLAS(allowed);
  }
  ~AllowTf32() { at::globalContext().setAllowTF32CuBLAS(before_); }
  AllowTf32(const AllowTf32&) = delete;
  AllowTf32& operator=(const AllowTf32&) = delete;

 private:
  bool before_;
};

double operations(int64_t size) {
  const auto n = static_cast<double>(size);
  return 2.0 * n * n * n;
}

/// The largest size of which two products fit in `seconds`, at the rate that the smallest reaches.
int64_t choose_size(const Meter& meter, at::ScalarType type, double seconds) {
  const auto a = meter.tensor({kSmallestProduct, kSmallestProduct}, type);
  at::mm(a, a);
  double best = 1e9;
  for (int i = 0; i < 3; ++i) best = std::min(best, meter.seconds([&] { at::mm(a, a); }));
  int64_t size = kLargestProduct;
  while (size > kSmallestProduct && 2 * best * operations(size) / operations(kSmallestProduct) > seconds)
    size /= 2;
  return size;
}

ProductRate measure_products(const Meter& meter, const std::string& name, at::ScalarType type, double seconds,
                             const Utilization& utilization) {
  const AllowTf32 tf32(name == "tf32");
  ProductRate rate{.type = name};
  try {
    rate.size = choose_size(meter, type, seconds);
    const auto a = meter.tensor({rate.size, rate.size}, type);
    auto product = meter.tensor({rate.size, rate.size}, type);
    const double one = meter.seconds([&] { at::mm_out(product, a, a); });
    const auto chunk = static_cast<int64_t>(std::clamp(0.1 / std::max(one, 1e-6), 1.0, 100.0));
    const double least = utilization && utilization() ? kUtilizationSeconds : 0;
    while ((rate.count < kMostProducts && rate.seconds + static_cast<double>(chunk) * one < seconds) ||
           rate.seconds < least || rate.count == 0) {
      rate.seconds += meter.seconds([&] {
        for (int64_t i = 0; i < chunk; ++i) at::mm_out(product, a, a);
        // The host has queued its products and is free to look while they run.
        if (const auto busy = utilization ? utilization() : std::nullopt)
          rate.utilization = std::max(rate.utilization.value_or(0), *busy);
      });
      rate.count += chunk;
    }
  } catch (const c10::Error& error) {
    rate.count = 0;
    rate.why_not = error.what_without_backtrace();
  }
  return rate;
}

/// Bytes a second from `source` to `destination`.
double copy_rate(const Meter& meter, const at::Tensor& source, const at::Tensor& destination) {
  destination.copy_(source, /*non_blocking=*/true);
  constexpr int kCopies = 4;
  const double seconds = meter.seconds([&] {
    for (int i = 0; i < kCopies; ++i) destination.copy_(source, /*non_blocking=*/true);
  });
  return kCopies * static_cast<double>(source.nbytes()) / seconds;
}

std::vector<CopyRate> measure_copies(const Meter& meter) {
  constexpr int64_t kFloats = 16 << 20;
  const auto host = at::ones({kFloats});
  const auto there = meter.tensor({kFloats}, at::kFloat);
  if (meter.device().is_cpu()) return {{"memory to memory", copy_rate(meter, host, there)}};
  std::vector<CopyRate> rates{{"host to device, pageable", copy_rate(meter, host, there)},
                              {"device to host, pageable", copy_rate(meter, there, host)}};
  const auto pinned = host.pin_memory();
  rates.push_back({"host to device, pinned", copy_rate(meter, pinned, there)});
  rates.push_back({"device to host, pinned", copy_rate(meter, there, pinned)});
  return rates;
}

void measure_latency(const Meter& meter, DeviceMeasures& measures) {
  constexpr int kLaunches = 1000;
  auto one = meter.tensor({1}, at::kFloat);
  one.add_(1);
  meter.synchronize();
  const double began = monotonic_seconds();
  for (int i = 0; i < kLaunches; ++i) one.add_(1);
  measures.launch_seconds = (monotonic_seconds() - began) / kLaunches;
  constexpr int kTrips = 100;
  measures.round_trip_seconds = meter.seconds([&] {
    for (int i = 0; i < kTrips; ++i) {
      one.add_(1);
      meter.synchronize();
    }
  }) / kTrips;
}

/// Whether a product's call returns well before the product is there.
bool is_asynchronous(const Meter& meter) {
  const auto a = meter.tensor({1024, 1024}, at::kFloat);
  at::mm(a, a);
  double queueing = 0;
  const double total = meter.seconds([&] {
    const double began = monotonic_seconds();
    for (int i = 0; i < 4; ++i) at::mm(a, a);
    queueing = monotonic_seconds() - began;
  });
  return queueing < 0.5 * total;
}

}  // namespace

double ProductRate::tflops() const {
  return seconds > 0 ? static_cast<double>(count) * operations(size) / seconds / 1e12 : 0;
}

double DeviceMeasures::tflops(const std::string& type) const {
  for (const ProductRate& rate : products) {
    if (rate.type == type) return rate.tflops();
  }
  return 0;
}

DeviceMeasures measure_device(const OpenDevice& device, double seconds_a_type,
                              const Utilization& utilization) {
  const at::NoGradGuard no_grad;
  const Meter meter(device);
  DeviceMeasures measures{.device = device.device.str(),
                          .description = device.services->describe(device.device)};
  measures.asynchronous = is_asynchronous(meter);
  measure_latency(meter, measures);
  measures.copies = measure_copies(meter);
  std::vector<std::pair<const char*, at::ScalarType>> types{{"fp32", at::kFloat}, {"bf16", at::kBFloat16}};
  if (device.device.is_cuda()) types.insert(types.begin() + 1, {"tf32", at::kFloat});
  if (!device.device.is_cpu()) types.emplace_back("fp16", at::kHalf);
  for (const auto& [name, type] : types) {
    measures.products.push_back(measure_products(meter, name, type, seconds_a_type, utilization));
  }
  return measures;
}

}  // namespace finetune::doctor
