#pragma once

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "finetune/kernels/ops.h"
#include "finetune/kernels/philox.h"

namespace finetune::kernels::testing {

inline at::Tensor random_tensor(at::IntArrayRef sizes, uint64_t seed) {
  return at::randn(sizes, at::detail::createCPUGenerator(seed), at::kFloat);
}

/// A parameter as the model holds it: gradient allocated and cleared.
inline at::Tensor parameter(const at::Tensor& values) {
  at::Tensor result = values.clone().set_requires_grad(true);
  result.mutable_grad() = at::zeros_like(values);
  return result;
}

/// The same values in double precision, for the reference computation.
inline at::Tensor reference_of(const at::Tensor& tensor) {
  return tensor.detach().to(at::kDouble).set_requires_grad(tensor.requires_grad());
}

/// Largest difference, in units of the largest expected value.
inline void expect_close(const at::Tensor& actual, const at::Tensor& expected, double tolerance,
                         const char* what) {
  ASSERT_TRUE(actual.defined()) << what;
  ASSERT_EQ(actual.sizes(), expected.sizes()) << what;
  if (expected.numel() == 0) return;
  const double size = std::max(expected.abs().max().item<double>(), 1e-30);
  const double difference = (actual.detach().to(at::kDouble) - expected.detach()).abs().max().item<double>();
  EXPECT_LE(difference, tolerance * size) << what << ", largest value " << size;
}

inline bool same(const at::Tensor& a, const at::Tensor& b) { return at::equal(a.detach(), b.detach()); }

/// Keys of consecutive positions of rows of these lengths.
inline at::Tensor token_keys(const std::vector<int64_t>& lengths, int64_t first_row = 0) {
  std::vector<int64_t> keys;
  for (size_t row = 0; row < lengths.size(); ++row) {
    for (int64_t position = 0; position < lengths[row]; ++position) {
      keys.push_back((first_row + static_cast<int64_t>(row)) << 32 | position);
    }
  }
  return at::tensor(keys, at::kLong);
}

inline at::Tensor cumulative(const std::vector<int64_t>& lengths) {
  std::vector<int32_t> starts{0};
  for (const int64_t length : lengths) starts.push_back(starts.back() + static_cast<int32_t>(length));
  return at::tensor(starts, at::kInt);
}

inline Dropout make_dropout(double probability, int64_t site, at::Tensor keys, int64_t seed = 42,
                            int64_t step = 7) {
  return {probability, site, at::tensor({seed, step}, at::kLong), std::move(keys)};
}

/// What the mask multiplies by, [tokens, features]: straight from the definition, one draw after the other.
inline at::Tensor mask_of(const Dropout& dropout, int64_t features, uint32_t head = 0) {
  const int64_t tokens = dropout.token_keys.numel();
  at::Tensor mask = at::ones({tokens, features}, at::kDouble);
  if (dropout.probability == 0.0) return mask;
  const auto seed = static_cast<uint64_t>(dropout.rng[0].item<int64_t>());
  const auto step = dropout.rng[1].item<int64_t>();
  auto values = mask.accessor<double, 2>();
  for (int64_t token = 0; token < tokens; ++token) {
    const int64_t key = dropout.token_keys[token].item<int64_t>();
    for (int64_t feature = 0; feature < features; ++feature) {
      const PhiloxWords output =
          philox4x32_7(dropout_counter(step, static_cast<uint32_t>(dropout.site), head, key,
                                       static_cast<uint32_t>(feature / kDropoutFeaturesPerCall)),
                       static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
      const bool keep =
          dropout_draw(output, static_cast<uint32_t>(feature)) >= dropout_threshold(dropout.probability);
      values[token][feature] = keep ? static_cast<double>(dropout_scale(dropout.probability)) : 0.0;
    }
  }
  return mask;
}

}  // namespace finetune::kernels::testing
