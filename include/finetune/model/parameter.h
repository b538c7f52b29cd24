#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "finetune/config/run_config.h"
#include "finetune/kernels/ops.h"
#include "finetune/model/projection.h"

namespace finetune {

/// A trainable tensor under its Hugging Face name. Both tensors may be views into a larger one (queries, keys
/// and values lie in one storage, since one product computes them).
struct Parameter {
  std::string name;
  at::Tensor value;
  at::Tensor grad;  ///< same shape; gradients are added here, the optimizer clears it; undefined: frozen
  at::Tensor copy =
      {};  ///< what products read in mixed precision (`kernels::Weight`); undefined where they read `value`

  /// A frozen parameter keeps its value: it has no gradient and no state in the optimizer.
  bool frozen() const { return !grad.defined(); }
};

/// Creates the parameters of a model on its device and keeps them in Hugging Face's order. Gradients are
/// allocated with them, so that training allocates nothing of a weight's size.
class ParameterStore {
 public:
  /// `precision`: of the activations, and so of the copies that products read: float32 (none), bfloat16 or
  /// float16. `lora`: which linear layers get an adapter.
  explicit ParameterStore(c10::Device device, at::ScalarType precision = at::kFloat,
                          std::optional<LoraConfig> lora = {})
      : device_(device), precision_(precision), lora_(std::move(lora)) {}

  /// A float32 leaf that requires a gradient, uninitialised.
  at::Tensor add(const std::string& name, at::IntArrayRef sizes);

  /// One leaf [sum of rows, ...], equal pieces of whose first dimension are the parameters `names`.
  at::Tensor add_stacked(const std::vector<std::string>& names, at::IntArrayRef sizes_of_one);

  /// The matrix of the linear layer `layer` (parameter `layer`.weight), with its low-precision copy where the
  /// activations have one, and its adapter where it is to have one.
  Projection add_projection(const std::string& layer, at::IntArrayRef sizes);

  /// The matrices of layers that one product computes, one below the other.
  Projection add_projection(const std::vector<std::string>& layers, at::IntArrayRef sizes_of_one);

  /// A bias [size]: the parameter `name`, or, where the family has none, zeros that are not trained.
  at::Tensor add_bias(const std::string& name, int64_t size, bool exists);

  /// The leaf of a parameter that was added before, for a layer that is tied to it.
  at::Tensor leaf(const std::string& name) const;

  /// Names of the linear layers so far, as `model.lora.targets` matches them.
  const std::vector<std::string>& linear_layers() const { return linear_layers_; }

  /// Freezes parameters. Those that share one leaf (queries, keys, values) cost no gradient's work once all
  /// of them are frozen.
  void freeze(const std::vector<std::string>& names);

  /// See `Classifier::let_learn`.
  void let_learn(const std::function<bool(const std::string& name)>& learns);

  c10::Device device() const { return device_; }
  at::ScalarType precision() const { return precision_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }

 private:
  kernels::Weight add(const std::vector<std::string>& names, at::IntArrayRef sizes_of_one, bool with_copy);
  at::Tensor make_leaf(at::IntArrayRef sizes) const;
  void add_adapters(const std::vector<std::string>& layers, at::IntArrayRef sizes_of_one,
                    Projection& projection);

  c10::Device device_;
  at::ScalarType precision_;
  std::optional<LoraConfig> lora_;
  int64_t num_adapters_ = 0;
  std::vector<std::string> linear_layers_;
  std::vector<Parameter> parameters_;

  struct Leaf {
    std::vector<std::string> names;  ///< of the parameters in it
    at::Tensor tensor;
    bool frozen = false;
  };
  std::vector<Leaf> leaves_;
};

/// Brings the copies up to date after something other than the optimizer changed the values.
void refresh_copies(const std::vector<Parameter>& parameters);

/// How parameters that no weights file fills begin: Hugging Face's rule for encoders. Matrices are normal
/// with `std` from the counted generator (seed, parameter's name), so a value does not depend on what else
/// the model holds; `bias` 0, LayerNorm weights 1, the row of the padding token 0. Adapters begin as PEFT's
/// do: A uniform within 1 / sqrt(its width), B 0, so that they change nothing yet.
void initialize(Parameter& parameter, double std, uint64_t seed, int64_t padding_row);

}  // namespace finetune
