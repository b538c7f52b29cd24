#include "finetune/model/parameter.h"

#include <ATen/ATen.h>

#include "finetune/core/hash.h"
#include "finetune/device/random.h"

namespace finetune {
namespace {

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

kernels::Weight ParameterStore::add_weight(const std::string& name, at::IntArrayRef sizes) {
  return add({name}, sizes, precision_ != at::kFloat);
}

kernels::Weight ParameterStore::add_stacked_weight(const std::vector<std::string>& names,
                                                   at::IntArrayRef sizes_of_one) {
  return add(names, sizes_of_one, precision_ != at::kFloat);
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
  leaves_.push_back({names, weight.master});
  for (size_t i = 0; i < names.size(); ++i) {
    const int64_t begin = static_cast<int64_t>(i) * rows;
    parameters_.push_back({.name = names[i],
                           .value = weight.master.detach().narrow(0, begin, rows),
                           .grad = weight.master.grad().narrow(0, begin, rows),
                           .copy = with_copy ? weight.copy.narrow(0, begin, rows) : at::Tensor()});
  }
  return weight;
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
  std::vector<float> values(static_cast<size_t>(parameter.value.numel()));
  CounterRandom random(seed, stream_of(name));
  for (float& value : values) value = static_cast<float>(std * random.normal());
  const auto host = at::from_blob(values.data(), parameter.value.sizes(), at::kFloat);
  const bool is_word_table =
      ends_with(name, "word_embeddings.weight") || ends_with(name, "tok_embeddings.weight");
  if (is_word_table && padding_row >= 0 && padding_row < host.size(0)) host[padding_row].zero_();
  parameter.value.copy_(host);
}

}  // namespace finetune
