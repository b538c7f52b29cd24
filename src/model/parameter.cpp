#include "finetune/model/parameter.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <regex>

#include "finetune/core/hash.h"
#include "finetune/device/random.h"

namespace finetune {
namespace {

/// The dropout sites of adapters: above the layers', below the heads'.
constexpr int64_t kFirstAdapterSite = 40000;

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

uint64_t stream_of(const std::string& name) {
  Xxh3 hash;
  hash.update(name);
  return std::stoull(hash.hex().substr(0, 16), nullptr, 16);
}

}  // namespace

at::Tensor ParameterStore::make_leaf(at::IntArrayRef sizes) const {
  auto leaf = at::empty(sizes, at::TensorOptions(at::kFloat).device(device_)).requires_grad_();
  leaf.mutable_grad() = at::zeros(sizes, at::TensorOptions(at::kFloat).device(device_));
  return leaf;
}

at::Tensor ParameterStore::add(const std::string& name, at::IntArrayRef sizes) {
  return add({name}, sizes, /*with_copy=*/false).master;
}

at::Tensor ParameterStore::add_stacked(const std::vector<std::string>& names, at::IntArrayRef sizes_of_one) {
  return add(names, sizes_of_one, /*with_copy=*/false).master;
}

Projection ParameterStore::add_projection(const std::string& layer, at::IntArrayRef sizes) {
  return add_projection(std::vector<std::string>{layer}, sizes);
}

Projection ParameterStore::add_projection(const std::vector<std::string>& layers,
                                          at::IntArrayRef sizes_of_one) {
  std::vector<std::string> names;
  for (const std::string& layer : layers) names.push_back(layer + ".weight");
  Projection projection{.weight = add(names, sizes_of_one, precision_ != at::kFloat)};
  linear_layers_.insert(linear_layers_.end(), layers.begin(), layers.end());
  if (lora_) add_adapters(layers, sizes_of_one, projection);
  return projection;
}

void ParameterStore::add_adapters(const std::vector<std::string>& layers, at::IntArrayRef sizes_of_one,
                                  Projection& projection) {
  const int64_t rows = sizes_of_one[0], width = sizes_of_one[1];
  const bool with_copy = precision_ != at::kFloat;
  const bool by_default = lora_->targets.empty();
  for (size_t i = 0; i < layers.size(); ++i) {
    // Queries, keys and values are one product, whether a family names them or not.
    const bool is_query_or_value = (layers.size() == 3 && i != 1) || layers[i].ends_with("Wqkv");
    const bool is_target =
        (by_default && is_query_or_value) ||
        std::any_of(lora_->targets.begin(), lora_->targets.end(), [&](const std::string& pattern) {
          return std::regex_search(layers[i], std::regex(pattern));
        });
    if (!is_target) continue;
    projection.adapters.push_back({.a = add({layers[i] + kAdapterA}, {lora_->rank, width}, with_copy),
                                   .b = add({layers[i] + kAdapterB}, {rows, lora_->rank}, with_copy),
                                   .first_row = static_cast<int64_t>(i) * rows,
                                   .scale = lora_->alpha / static_cast<double>(lora_->rank),
                                   .dropout = lora_->dropout,
                                   .site = kFirstAdapterSite + num_adapters_++});
  }
}

at::Tensor ParameterStore::add_bias(const std::string& name, int64_t size, bool exists) {
  if (exists) return add(name, {size});
  return at::zeros({size}, at::TensorOptions(at::kFloat).device(device_));
}

kernels::Weight ParameterStore::add(const std::vector<std::string>& names, at::IntArrayRef sizes_of_one,
                                    bool with_copy) {
  std::vector<int64_t> sizes = sizes_of_one.vec();
  const int64_t rows = sizes[0];
  sizes[0] *= static_cast<int64_t>(names.size());
  kernels::Weight weight(make_leaf(sizes));
  if (with_copy) weight.copy = at::empty(sizes, at::TensorOptions(precision_).device(device_));
  leaves_.push_back({.names = names, .tensor = weight.master});
  for (size_t i = 0; i < names.size(); ++i) {
    const int64_t begin = static_cast<int64_t>(i) * rows;
    parameters_.push_back({.name = names[i],
                           .value = weight.master.detach().narrow(0, begin, rows),
                           .grad = weight.master.grad().narrow(0, begin, rows),
                           .copy = with_copy ? weight.copy.narrow(0, begin, rows) : at::Tensor()});
  }
  return weight;
}

at::Tensor ParameterStore::leaf(const std::string& name) const {
  for (const Leaf& leaf : leaves_) {
    if (leaf.names.size() == 1 && leaf.names.front() == name) return leaf.tensor;
  }
  TORCH_CHECK(false, "no parameter ", name, " of its own");
}

void ParameterStore::freeze(const std::vector<std::string>& names) {
  const auto is_meant = [&](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  for (Parameter& parameter : parameters_) {
    if (is_meant(parameter.name)) parameter.grad = at::Tensor();
  }
  for (Leaf& leaf : leaves_) {
    const bool all = std::all_of(leaf.names.begin(), leaf.names.end(), [&](const std::string& name) {
      return std::any_of(parameters_.begin(), parameters_.end(), [&](const Parameter& parameter) {
        return parameter.name == name && parameter.frozen();
      });
    });
    if (!all) continue;
    leaf.tensor.mutable_grad() = at::Tensor();
    leaf.tensor.set_requires_grad(false);
    leaf.frozen = true;
  }
}

void ParameterStore::let_learn(const std::function<bool(const std::string& name)>& learns) {
  for (Leaf& leaf : leaves_) {
    if (!leaf.frozen) {
      leaf.tensor.set_requires_grad(std::any_of(leaf.names.begin(), leaf.names.end(), learns));
    }
  }
}

void refresh_copies(const std::vector<Parameter>& parameters) {
  for (const Parameter& parameter : parameters) {
    if (parameter.copy.defined()) parameter.copy.copy_(parameter.value);
  }
}

void initialize(Parameter& parameter, double std, uint64_t seed, int64_t padding_row) {
  const std::string& name = parameter.name;
  if (ends_with(name, "bias")) {
    parameter.value.zero_();
    return;
  }
  if (parameter.value.dim() == 1) {
    parameter.value.fill_(1.0);
    return;
  }
  if (ends_with(name, kAdapterB)) {
    parameter.value.zero_();
    return;
  }
  std::vector<float> values(static_cast<size_t>(parameter.value.numel()));
  CounterRandom random(seed, stream_of(name));
  if (ends_with(name, kAdapterA)) {
    const double bound = 1.0 / std::sqrt(static_cast<double>(parameter.value.size(1)));
    for (float& value : values) value = static_cast<float>(bound * (random.next() * 0x1p-31 - 1.0));
  } else {
    for (float& value : values) value = static_cast<float>(std * random.normal());
  }
  const auto host = at::from_blob(values.data(), parameter.value.sizes(), at::kFloat);
  const bool is_word_table =
      ends_with(name, "word_embeddings.weight") || ends_with(name, "tok_embeddings.weight");
  if (is_word_table && padding_row >= 0 && padding_row < host.size(0)) host[padding_row].zero_();
  parameter.value.copy_(host);
}

}  // namespace finetune
