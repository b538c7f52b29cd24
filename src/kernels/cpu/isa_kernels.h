#pragma once

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cstdint>
#include <string_view>
#include <type_traits>

/// What is compiled once for each instruction set: loops over raw memory, one call for one thread's share of
/// the work. Threads, shapes and tensors are the callers' affair.
namespace finetune::kernels::cpu {

/// One dropout site of one step, ready for the inner loops; threshold 0 keeps everything.
struct DropoutDraw {
  uint64_t seed = 0;
  int64_t step = 0;
  uint32_t site = 0;
  uint32_t threshold = 0;
  float scale = 1.0f;
};

/// Rows [rows, cols] that share everything but their memory.
struct NormRows {
  int64_t rows = 0;
  int64_t cols = 0;
  const float* weight = nullptr;
  const float* bias = nullptr;
  float eps = 0.0f;
};

/// Sums over rows that a backward pass adds to, [cols] each.
struct NormGradSums {
  float* x_bias = nullptr;
  float* weight = nullptr;
  float* bias = nullptr;
};

/// One attention problem: all rows and heads of a batch. T: type of the activations.
template <typename T>
struct AttentionShape {
  int64_t hidden = 0;     ///< H
  int64_t head_size = 0;  ///< H / heads
  int64_t num_tokens = 0;
  float scale = 1.0f;
  const T* qkv = nullptr;               ///< [N, 3 * H]
  const float* qkv_bias = nullptr;      ///< [3 * H]
  const int64_t* token_keys = nullptr;  ///< [N]; unused where the draw keeps everything
  DropoutDraw draw;
};

/// One row and head of it.
struct AttentionTile {
  int64_t start = 0;  ///< first token
  int64_t length = 0;
  int64_t head = 0;
};

/// One element-wise AdamW or Adam update with its scalars worked out.
struct AdamScalars {
  float grad_scale = 1.0f;
  float first_weight = 0.1f;     ///< 1 - beta1
  float second_keep = 0.999f;    ///< beta2
  float second_weight = 0.001f;  ///< 1 - beta2, rounded once
  float eps = 1e-8f;
  float decay_factor = 1.0f;  ///< 1 - lr * weight_decay; 1 for plain Adam
  float l2 = 0.0f;            ///< weight decay added to the gradient; 0 for AdamW
  float step_size = 0.0f;     ///< lr / (1 - beta1^t)
  float correction2_sqrt = 1.0f;
};

/// Loops over activations of type T (float, BFloat16 or Half). Biases, LayerNorm's parameters, sums and all
/// arithmetic are float.
template <typename T>
struct ActivationKernels {
  void (*add_bias)(const T* x, const float* bias, T* y, int64_t rows, int64_t cols);
  void (*column_sums)(const T* x, int64_t rows, int64_t cols, float* sums);
  void (*bias_activation)(const T* x, const float* bias, T* y, int64_t rows, int64_t cols,
                          int64_t activation);
  /// Adds the gradient's column sums to `bias_sums`.
  void (*bias_activation_backward)(const T* grad, const T* x, const float* bias, T* x_grad, float* bias_sums,
                                   int64_t rows, int64_t cols, int64_t activation);

  void (*dropout)(const T* x, const int64_t* token_keys, T* y, int64_t rows, int64_t cols,
                  const DropoutDraw& draw);

  void (*layer_norm)(const NormRows& shape, const T* x, T* y, float* mean, float* rstd);
  void (*dropout_add_layer_norm)(const NormRows& shape, const T* x, const float* x_bias, const T* residual,
                                 const int64_t* token_keys, const DropoutDraw& draw, T* y, T* sum,
                                 float* mean, float* rstd);
  /// `x_grad` may be null where it would equal `sum_grad`: without dropout.
  void (*layer_norm_backward)(const NormRows& shape, const T* grad, const T* sum, const float* mean,
                              const float* rstd, const int64_t* token_keys, const DropoutDraw& draw,
                              T* sum_grad, T* x_grad, const NormGradSums& sums);

  /// output [N, H], log_sum_exp [N] of this tile's head.
  void (*attention)(const AttentionShape<T>& shape, const AttentionTile& tile, float* scratch, T* output,
                    float* log_sum_exp);
  /// qkv_grad [N, 3 * H]; bias_sums [3 * H] is set in this tile's columns.
  void (*attention_backward)(const AttentionShape<T>& shape, const AttentionTile& tile, const T* grad,
                             const T* output, const float* log_sum_exp, float* scratch, T* qkv_grad,
                             float* bias_sums);

  /// Also writes the new parameters to `copy`, where that is not null.
  void (*adam)(float* param, float* grad, float* exp_avg, float* exp_avg_sq, T* copy, int64_t count,
               const AdamScalars& scalars);
};

struct IsaKernels {
  const char* name;

  ActivationKernels<float> float32;
  ActivationKernels<c10::BFloat16> bfloat16;
  ActivationKernels<c10::Half> float16;

  /// Floats of scratch memory that one thread needs for rows of up to `max_length`.
  int64_t (*attention_scratch)(int64_t max_length, int64_t head_size, bool backward);
  void (*embedding_row)(const float* word, const float* position, const float* type, float* y, int64_t cols);
  void (*add_to)(const float* x, float* sums, int64_t cols);

  template <typename T>
  const ActivationKernels<T>& of() const {
    if constexpr (std::is_same_v<T, float>) return float32;
    if constexpr (std::is_same_v<T, c10::BFloat16>) return bfloat16;
    if constexpr (std::is_same_v<T, c10::Half>) return float16;
  }
};

/// The table for this machine: the best set that it has, or less where ATEN_CPU_CAPABILITY (default, avx2,
/// avx512) asks for less. Chosen at the first call.
const IsaKernels& isa_kernels();

/// The table of one set, "DEFAULT", "AVX2" or "AVX512"; null where this machine or this build has none.
const IsaKernels* find_isa_kernels(std::string_view name);

}  // namespace finetune::kernels::cpu
