// The floor of a training step: only its matrix products (every linear layer of a MiniLM-sized encoder:
// forward, gradient of the input, gradient of the weight), in their shapes, with outputs allocated once.
// READ: how many tokens the last layer computes after its attention; all TOKENS for a peer's step.
// Usage: step_products TOKENS READ THREADS [PRECISION]
// Prints {"seconds": best of several, "library_mb": resident memory before any tensor was made}.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "finetune/core/clock.h"
#include "finetune/device/device.h"
#include "kernels/operators.h"

namespace {

constexpr int64_t kHidden = 384, kIntermediate = 1536, kLayers = 6;
constexpr int kRepetitions = 9;

struct Product {
  at::Tensor x, weight, y, grad_y, grad_x, grad_weight;

  Product(int64_t tokens, int64_t in, int64_t out, at::ScalarType type)
      : x(at::randn({tokens, in}).to(type)),
        weight(at::randn({out, in}).to(type)),
        y(at::empty({tokens, out}, type)),
        grad_y(at::randn({tokens, out}).to(type)),
        grad_x(at::empty({tokens, in}, type)),
        grad_weight(at::zeros({out, in})) {}

  void run() {
    at::mm_out(y, x, weight.t());
    at::mm_out(grad_x, grad_y, weight);
    if (x.scalar_type() == at::kFloat) {
      at::mm_out(grad_weight, grad_y.t(), x);
    } else {
      finetune::kernels::operators::add_product(grad_y, x, grad_weight);  // the quickest there is
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  const int64_t tokens = argc > 1 ? std::atoll(argv[1]) : 2048;
  const int64_t read = argc > 2 ? std::atoll(argv[2]) : tokens;
  at::set_num_threads(argc > 3 ? std::atoi(argv[3]) : 2);
  const at::ScalarType type = argc > 4 && std::strcmp(argv[4], "bf16") == 0 ? at::kBFloat16 : at::kFloat;
  const at::NoGradGuard no_grad;
  const double library = static_cast<double>(
      finetune::open_device("cpu", at::get_num_threads()).services->memory(c10::Device(c10::kCPU)).allocated);
  std::vector<Product> products;
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    const int64_t after_attention = layer + 1 < kLayers ? tokens : read;
    products.emplace_back(tokens, kHidden, 3 * kHidden, type);
    products.emplace_back(after_attention, kHidden, kHidden, type);
    products.emplace_back(after_attention, kHidden, kIntermediate, type);
    products.emplace_back(after_attention, kIntermediate, kHidden, type);
  }
  double best = 1e30;
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    const double began = finetune::monotonic_seconds();
    for (Product& product : products) product.run();
    best = std::min(best, finetune::monotonic_seconds() - began);
  }
  std::printf("{\"seconds\": %.6f, \"library_mb\": %.1f}\n", best, library / (1 << 20));
}
