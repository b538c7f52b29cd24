// The floor of a training step: only its matrix products (every linear layer of a MiniLM-sized encoder:
// forward, gradient of the input, gradient of the weight), in their shapes, with outputs allocated once.
// Usage: step_products TOKENS THREADS Prints {"seconds": best of several}.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "finetune/core/clock.h"

namespace {

constexpr int64_t kHidden = 384, kIntermediate = 1536, kLayers = 6;
constexpr int kRepetitions = 9;

struct Product {
  at::Tensor x, weight, y, grad_y, grad_x, grad_weight;

  Product(int64_t tokens, int64_t in, int64_t out)
      : x(at::randn({tokens, in})),
        weight(at::randn({out, in})),
        y(at::empty({tokens, out})),
        grad_y(at::randn({tokens, out})),
        grad_x(at::empty({tokens, in})),
        grad_weight(at::zeros({out, in})) {}

  void run() {
    at::mm_out(y, x, weight.t());
    at::mm_out(grad_x, grad_y, weight);
    at::mm_out(grad_weight, grad_y.t(), x);
  }
};

}  // namespace

int main(int argc, char** argv) {
  const int64_t tokens = argc > 1 ? std::atoll(argv[1]) : 2048;
  at::set_num_threads(argc > 2 ? std::atoi(argv[2]) : 2);
  const at::NoGradGuard no_grad;
  std::vector<Product> products;
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    products.emplace_back(tokens, kHidden, 3 * kHidden);
    products.emplace_back(tokens, kHidden, kHidden);
    products.emplace_back(tokens, kHidden, kIntermediate);
    products.emplace_back(tokens, kIntermediate, kHidden);
  }
  double best = 1e30;
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    const double began = finetune::monotonic_seconds();
    for (Product& product : products) product.run();
    best = std::min(best, finetune::monotonic_seconds() - began);
  }
  std::printf("{\"seconds\": %.6f}\n", best);
}
