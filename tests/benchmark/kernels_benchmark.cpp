#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <benchmark/benchmark.h>

#include <cmath>
#include <vector>

#include "finetune/kernels/ops.h"

/// MiniLM's operations (H = 384, 12 heads, I = 1536) on 32 rows of 16 or 64 tokens, forward and backward,
/// each beside the ATen operations it replaces, and a whole layer beside its matrix products alone.
///
/// On a busy machine, read the `CPU` column of a run with --threads=1: it does not count the time that others
/// took.
namespace finetune::kernels {
namespace {

constexpr int64_t kHidden = 384, kHeads = 12, kIntermediate = 1536, kRows = 32;
constexpr double kEps = 1e-12, kProbability = 0.1;

at::Tensor random_tensor(at::IntArrayRef sizes) {
  static at::Generator generator = at::detail::createCPUGenerator(1);
  return at::randn(sizes, generator, at::kFloat).mul_(0.1);
}

at::Tensor parameter(at::IntArrayRef sizes) {
  at::Tensor result = random_tensor(sizes).set_requires_grad(true);
  result.mutable_grad() = at::zeros(sizes);
  return result;
}

/// One encoder layer's parameters and one batch.
struct Layer {
  int64_t length, tokens;
  at::Tensor qkv_weight = parameter({3 * kHidden, kHidden}), qkv_bias = parameter({3 * kHidden});
  at::Tensor attention_weight = parameter({kHidden, kHidden}), attention_bias = parameter({kHidden});
  at::Tensor norm_weight = parameter({kHidden}), norm_bias = parameter({kHidden});
  at::Tensor intermediate_weight = parameter({kIntermediate, kHidden}),
             intermediate_bias = parameter({kIntermediate});
  at::Tensor output_weight = parameter({kHidden, kIntermediate}), output_bias = parameter({kHidden});
  at::Tensor cu_seqlens, x, grad, wide, wide_grad, qkv;
  Dropout drop;

  explicit Layer(const benchmark::State& state) : length(state.range(0)), tokens(kRows * length) {
    std::vector<int32_t> starts{0};
    std::vector<int64_t> keys;
    for (int64_t row = 0; row < kRows; ++row) {
      starts.push_back(static_cast<int32_t>((row + 1) * length));
      for (int64_t position = 0; position < length; ++position) keys.push_back(row << 32 | position);
    }
    cu_seqlens = at::tensor(starts, at::kInt);
    x = random_tensor({tokens, kHidden}).set_requires_grad(true);
    grad = random_tensor({tokens, kHidden});
    wide = random_tensor({tokens, kIntermediate}).set_requires_grad(true);
    wide_grad = random_tensor({tokens, kIntermediate});
    qkv = random_tensor({tokens, 3 * kHidden}).set_requires_grad(true);
    drop = {kProbability, 1, at::tensor({int64_t{1}, int64_t{2}}, at::kLong), at::tensor(keys, at::kLong)};
  }
};

/// Runs forward and backward, activations' gradients dropped in between.
template <typename F>
void run(benchmark::State& state, const Layer& layer, const at::Tensor& grad, const F& forward) {
  for (auto _ : state) {
    for (const at::Tensor& leaf : {layer.x, layer.wide, layer.qkv}) leaf.mutable_grad() = at::Tensor();
    forward().backward(grad);
  }
}

void bias_gelu_ours(benchmark::State& state) {
  const Layer layer(state);
  run(state, layer, layer.wide_grad,
      [&] { return bias_activation(layer.wide, layer.intermediate_bias, Activation::kGelu); });
}

void bias_gelu_aten(benchmark::State& state) {
  const Layer layer(state);
  run(state, layer, layer.wide_grad, [&] { return at::gelu(layer.wide + layer.intermediate_bias); });
}

void dropout_ours(benchmark::State& state) {
  const Layer layer(state);
  run(state, layer, layer.grad, [&] { return dropout(layer.x, layer.drop); });
}

void dropout_aten(benchmark::State& state) {
  const Layer layer(state);
  run(state, layer, layer.grad, [&] { return at::dropout(layer.x, kProbability, true); });
}

void dropout_add_layer_norm_ours(benchmark::State& state) {
  const Layer layer(state);
  const at::Tensor residual = layer.x.detach();
  run(state, layer, layer.grad, [&] {
    return dropout_add_layer_norm(layer.x, layer.attention_bias, residual, layer.norm_weight, layer.norm_bias,
                                  kEps, layer.drop);
  });
}

void dropout_add_layer_norm_aten(benchmark::State& state) {
  const Layer layer(state);
  const at::Tensor residual = layer.x.detach();
  run(state, layer, layer.grad, [&] {
    const at::Tensor sum = at::dropout(layer.x + layer.attention_bias, kProbability, true) + residual;
    return at::layer_norm(sum, {kHidden}, layer.norm_weight, layer.norm_bias, kEps);
  });
}

at::Tensor aten_attention(const Layer& layer, const at::Tensor& qkv) {
  const at::Tensor heads = (qkv + layer.qkv_bias).view({kRows, layer.length, 3, kHeads, kHidden / kHeads});
  const at::Tensor parts = heads.permute({2, 0, 3, 1, 4});
  const at::Tensor scores = at::matmul(parts[0], parts[1].transpose(-1, -2)) / std::sqrt(kHidden / kHeads);
  const at::Tensor probabilities = at::dropout(at::softmax(scores, -1), kProbability, true);
  return at::matmul(probabilities, parts[2]).transpose(1, 2).reshape({layer.tokens, kHidden});
}

at::Tensor our_attention(const Layer& layer, const at::Tensor& qkv) {
  return packed_attention(qkv, layer.qkv_bias, layer.cu_seqlens, layer.length, kHeads,
                          1.0 / std::sqrt(kHidden / kHeads), layer.drop);
}

void attention_ours(benchmark::State& state) {
  const Layer layer(state);
  run(state, layer, layer.grad, [&] { return our_attention(layer, layer.qkv); });
}

void attention_aten(benchmark::State& state) {
  const Layer layer(state);
  run(state, layer, layer.grad, [&] { return aten_attention(layer, layer.qkv); });
}

void layer_ours(benchmark::State& state) {
  const Layer layer(state);
  run(state, layer, layer.grad, [&] {
    const at::Tensor context = our_attention(layer, kernels::linear(layer.x, layer.qkv_weight));
    const at::Tensor attended =
        dropout_add_layer_norm(kernels::linear(context, layer.attention_weight), layer.attention_bias,
                               layer.x, layer.norm_weight, layer.norm_bias, kEps, layer.drop);
    const at::Tensor wide = bias_activation(kernels::linear(attended, layer.intermediate_weight),
                                            layer.intermediate_bias, Activation::kGelu);
    return dropout_add_layer_norm(kernels::linear(wide, layer.output_weight), layer.output_bias, attended,
                                  layer.norm_weight, layer.norm_bias, kEps, layer.drop);
  });
}

void layer_aten(benchmark::State& state) {
  const Layer layer(state);
  const auto norm = [&](const at::Tensor& x, const at::Tensor& residual) {
    return at::layer_norm(at::dropout(x, kProbability, true) + residual, {kHidden}, layer.norm_weight,
                          layer.norm_bias, kEps);
  };
  run(state, layer, layer.grad, [&] {
    const at::Tensor context = aten_attention(layer, at::mm(layer.x, layer.qkv_weight.t()));
    const at::Tensor attended =
        norm(at::linear(context, layer.attention_weight, layer.attention_bias), layer.x);
    const at::Tensor wide =
        at::gelu(at::linear(attended, layer.intermediate_weight, layer.intermediate_bias));
    return norm(at::linear(wide, layer.output_weight, layer.output_bias), attended);
  });
}

void layer_products(benchmark::State& state) {
  const at::NoGradGuard no_grad;
  const Layer layer(state);
  const at::Tensor narrow = layer.x.detach(), wide = layer.wide.detach();
  struct Product {
    at::Tensor weight, x, grad, y, x_grad;
  };
  std::vector<Product> products;
  for (const at::Tensor& weight :
       {layer.qkv_weight, layer.attention_weight, layer.intermediate_weight, layer.output_weight}) {
    const at::Tensor x = weight.size(1) == kHidden ? narrow : wide;
    products.push_back({weight, x, random_tensor({layer.tokens, weight.size(0)}),
                        at::empty({layer.tokens, weight.size(0)}), at::empty_like(x)});
  }
  for (auto _ : state) {
    for (Product& p : products) {
      at::mm_out(p.y, p.x, p.weight.t());
      at::mm_out(p.x_grad, p.grad, p.weight);
      p.weight.mutable_grad().addmm_(p.grad.t(), p.x);
    }
  }
}

std::vector<at::Tensor> many(int64_t count, int64_t size) {
  std::vector<at::Tensor> result;
  for (int64_t i = 0; i < count; ++i) result.push_back(at::ones({size}));
  return result;
}

/// A word table's worth of elements and a layer's small ones.
void adam_ours(benchmark::State& state) {
  constexpr int64_t kCount = 40, kSize = 300'000;
  const auto params = many(kCount, kSize), grads = many(kCount, kSize), first = many(kCount, kSize),
             second = many(kCount, kSize);
  const at::Tensor steps = at::zeros({kCount}), one = at::ones({}), zero = at::zeros({});
  for (auto _ : state) {
    for (const at::Tensor& grad : grads) grad.fill_(0.01);
    adam_step(params, grads, first, second, {}, steps, std::vector<double>(kCount, 0.01), one * 1e-5, one,
              zero, {});
  }
}

void adam_aten(benchmark::State& state) {
  constexpr int64_t kCount = 40, kSize = 300'000;
  const auto params = many(kCount, kSize), grads = many(kCount, kSize), first = many(kCount, kSize),
             second = many(kCount, kSize), steps = many(kCount, 1);
  for (auto _ : state) {
    for (const at::Tensor& grad : grads) grad.fill_(0.01);
    at::_fused_adamw_(params, grads, first, second, {}, steps, 1e-5, 0.9, 0.999, 0.01, 1e-8, false, false);
    for (const at::Tensor& grad : grads) grad.zero_();
  }
}

void embedding_ours(benchmark::State& state) {
  const Layer layer(state);
  const at::Tensor word = parameter({30522, kHidden}), position = parameter({512, kHidden}),
                   type = parameter({2, kHidden});
  const at::Tensor ids = at::randint(0, 30522, {layer.tokens}, at::kInt);
  const at::Tensor positions = at::arange(layer.tokens, at::kInt).remainder(layer.length);
  const at::Tensor types = at::zeros({layer.tokens}, at::kInt);
  run(state, layer, layer.grad, [&] { return embedding_sum(ids, positions, types, word, position, type); });
}

#define FINETUNE_LENGTHS Arg(16)->Arg(64)->ArgName("length")->Unit(benchmark::kMicrosecond)
BENCHMARK(bias_gelu_ours)->FINETUNE_LENGTHS;
BENCHMARK(bias_gelu_aten)->FINETUNE_LENGTHS;
BENCHMARK(dropout_ours)->FINETUNE_LENGTHS;
BENCHMARK(dropout_aten)->FINETUNE_LENGTHS;
BENCHMARK(dropout_add_layer_norm_ours)->FINETUNE_LENGTHS;
BENCHMARK(dropout_add_layer_norm_aten)->FINETUNE_LENGTHS;
BENCHMARK(attention_ours)->FINETUNE_LENGTHS;
BENCHMARK(attention_aten)->FINETUNE_LENGTHS;
BENCHMARK(embedding_ours)->FINETUNE_LENGTHS;
BENCHMARK(layer_ours)->FINETUNE_LENGTHS;
BENCHMARK(layer_aten)->FINETUNE_LENGTHS;
BENCHMARK(layer_products)->FINETUNE_LENGTHS;
BENCHMARK(adam_ours)->Unit(benchmark::kMicrosecond);
BENCHMARK(adam_aten)->Unit(benchmark::kMicrosecond);
#undef FINETUNE_LENGTHS

}  // namespace
}  // namespace finetune::kernels

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.starts_with("--threads=")) at::set_num_threads(std::stoi(argument.substr(10)));
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
