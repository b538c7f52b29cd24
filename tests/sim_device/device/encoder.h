#pragma once

/// A small transformer encoder with a classification loss, written with LibTorch's own operators like a
/// trainer's model: every tensor is created on the device it is asked for, and nothing in a step needs a
/// value on the host.

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/api/include/torch/nn/module.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace finetune::sim {

struct EncoderShape {
  int64_t vocabulary = 100;
  int64_t positions = 16;
  int64_t width = 32;
  int64_t heads = 4;
  int64_t inner = 64;
  int64_t layers = 2;
  int64_t classes = 3;
  double dropout = 0.0;
};

class Encoder : public torch::nn::Module {
 public:
  Encoder(const EncoderShape& shape, at::Device device) : shape_(shape), device_(device) {
    const int64_t width = shape.width;
    parameter("words", {shape.vocabulary, width});
    parameter("places", {shape.positions, width});
    for (int64_t i = 0; i < shape.layers; ++i) {
      const std::string prefix = name_of(i);
      for (const char* norm : {"norm1_", "norm2_"}) {
        parameter(prefix + norm + "scale", {width});
        parameter(prefix + norm + "shift", {width});
      }
      dense(prefix + "qkv", 3 * width, width);
      dense(prefix + "out", width, width);
      dense(prefix + "up", shape.inner, width);
      dense(prefix + "down", width, shape.inner);
    }
    dense("head", shape.classes, width);
  }

  /// From one CPU generator, so that every device starts from the same numbers.
  void init(uint64_t seed) {
    const at::NoGradGuard no_grad;
    at::Generator generator = at::detail::createCPUGenerator(seed);
    for (auto& item : named_parameters()) {
      const auto sizes = item.value().sizes();
      const double fill = item.key().ends_with("scale") ? 1.0 : 0.0;
      item.value().copy_(sizes.size() == 1 ? at::full(sizes, fill) : at::randn(sizes, generator) * 0.1);
    }
  }

  at::Tensor embed(const at::Tensor& ids) {  // [B, S] -> [B, S, W]
    return drop(at::embedding(get("words"), ids) + get("places").narrow(0, 0, ids.size(1)));
  }

  at::Tensor layer(int64_t i, const at::Tensor& x) {  // [B, S, W] -> [B, S, W]
    const std::string prefix = name_of(i);
    const int64_t batch = x.size(0), length = x.size(1), head_width = shape_.width / shape_.heads;
    const auto normed = [&](const std::string& norm, const at::Tensor& input) {
      return at::layer_norm(input, {shape_.width}, get(norm + "scale"), get(norm + "shift"), 1e-12);
    };
    const auto linear = [&](const std::string& name, const at::Tensor& input) {
      return at::linear(input, get(prefix + name), get(prefix + name + "_bias"));
    };
    const auto qkv = linear("qkv", normed(prefix + "norm1_", x))
                         .view({batch, length, 3, shape_.heads, head_width})
                         .permute({2, 0, 3, 1, 4});
    const auto scores =
        at::matmul(qkv[0], qkv[1].transpose(-2, -1)) / std::sqrt(static_cast<double>(head_width));
    const auto mixed = at::matmul(drop(at::softmax(scores, -1)), qkv[2])
                           .transpose(1, 2)
                           .reshape({batch, length, shape_.width});
    const auto y = x + drop(linear("out", mixed));
    return y + drop(linear("down", at::gelu(linear("up", normed(prefix + "norm2_", y)))));
  }

  at::Tensor classify(const at::Tensor& x) {  // [B, S, W] -> [B, C]
    return at::linear(x.select(1, 0), get("head"), get("head_bias"));
  }

  at::Tensor loss(const at::Tensor& ids, const at::Tensor& labels) {
    at::Tensor x = embed(ids);
    for (int64_t i = 0; i < shape_.layers; ++i) x = layer(i, x);
    return at::cross_entropy_loss(classify(x), labels);
  }

  at::Tensor get(const std::string& name) { return named_parameters(false)[name]; }
  const EncoderShape& shape() const { return shape_; }

 private:
  static std::string name_of(int64_t layer) { return "layer" + std::to_string(layer) + "_"; }
  void parameter(const std::string& name, at::IntArrayRef size) {
    register_parameter(name, at::empty(size, at::TensorOptions().device(device_)));
  }
  void dense(const std::string& name, int64_t rows, int64_t columns) {
    parameter(name, {rows, columns});
    parameter(name + "_bias", {rows});
  }
  at::Tensor drop(const at::Tensor& x) {
    return shape_.dropout > 0 ? at::dropout(x, shape_.dropout, true) : x;
  }

  EncoderShape shape_;
  at::Device device_;
};

/// Fused AdamW with clipping on the device.
class AdamW {
 public:
  explicit AdamW(std::vector<at::Tensor> parameters) : parameters_(std::move(parameters)) {
    for (const at::Tensor& parameter : parameters_) {
      first_moments_.push_back(at::zeros_like(parameter));
      second_moments_.push_back(at::zeros_like(parameter));
      steps_.push_back(at::zeros({}, parameter.options().dtype(at::kFloat).requires_grad(false)));
    }
  }
  void step(double rate, double max_norm = 1.0) {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> grads;
    for (const at::Tensor& parameter : parameters_) grads.push_back(parameter.grad());
    const auto norm = at::linalg_vector_norm(at::stack(at::_foreach_norm(grads)));
    at::_foreach_mul_(grads, at::clamp_max(max_norm / (norm + 1e-6), 1.0));
    at::_foreach_add_(steps_, 1);
    at::_fused_adamw_(parameters_, grads, first_moments_, second_moments_, {}, steps_, rate, 0.9, 0.999, 0.01,
                      1e-8, false, false);
    for (at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
  }
  std::vector<at::Tensor>& first_moments() { return first_moments_; }
  std::vector<at::Tensor>& second_moments() { return second_moments_; }

 private:
  std::vector<at::Tensor> parameters_, first_moments_, second_moments_, steps_;
};

}  // namespace finetune::sim
