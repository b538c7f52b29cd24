#include "finetune/train/memory_plan.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdio>
#include <functional>

namespace finetune {

int64_t estimate_activations(const EncoderConfig& encoder, int64_t tokens, at::ScalarType precision) {
  const int64_t a_layer = 8 * encoder.hidden_size + 2 * encoder.intermediate_size + encoder.num_heads;
  const int64_t embedding = 3 * encoder.hidden_size * static_cast<int64_t>(sizeof(float));
  const int64_t layers = encoder.activation_checkpointing ? encoder.num_layers * encoder.hidden_size + a_layer
                                                          : encoder.num_layers * a_layer;
  return tokens * (static_cast<int64_t>(c10::elementSize(precision)) * layers + embedding);
}

int64_t largest_micro_batch(std::vector<int32_t> lengths, int64_t rows, int64_t token_budget) {
  std::sort(lengths.begin(), lengths.end(), std::greater<>());
  if (rows > 0 && rows < static_cast<int64_t>(lengths.size())) lengths.resize(static_cast<size_t>(rows));
  int64_t tokens = 0;
  for (const int32_t length : lengths) {
    if (token_budget > 0 && tokens > 0 && tokens + length > token_budget) break;
    tokens += length;
  }
  return tokens;
}

MemoryPlan plan_memory(const EncoderConfig& encoder, const std::vector<Parameter>& parameters,
                       const OptimizerConfig& optimizer, int64_t micro_batch_tokens, int64_t data_bytes) {
  MemoryPlan plan;
  int64_t copies = 0;
  at::ScalarType precision = at::kFloat;
  for (const Parameter& parameter : parameters) {
    plan.weights += static_cast<int64_t>(parameter.value.nbytes());
    if (parameter.copy.defined()) {
      copies += static_cast<int64_t>(parameter.copy.nbytes());
      precision = parameter.copy.scalar_type();
    }
    if (!parameter.frozen()) plan.gradients += static_cast<int64_t>(parameter.grad.nbytes());
  }
  plan.moments = optimizer.type == OptimizerType::kSgd ? 0 : (optimizer.amsgrad ? 3 : 2) * plan.gradients;
  plan.weights += copies;
  plan.activations = estimate_activations(encoder, micro_batch_tokens, precision);
  plan.data = data_bytes;
  return plan;
}

std::string bytes_text(int64_t bytes) {
  constexpr double kKibi = 1024.0;
  const auto value = static_cast<double>(bytes);
  char text[32];
  if (value >= kKibi * kKibi * kKibi) {
    std::snprintf(text, sizeof(text), "%.1f GiB", value / (kKibi * kKibi * kKibi));
  } else if (value >= kKibi * kKibi) {
    std::snprintf(text, sizeof(text), "%.0f MiB", value / (kKibi * kKibi));
  } else if (value >= kKibi) {
    std::snprintf(text, sizeof(text), "%.0f KiB", value / kKibi);
  } else {
    std::snprintf(text, sizeof(text), "%.0f B", value);
  }
  return text;
}

std::string to_text(const MemoryPlan& plan, std::optional<int64_t> available) {
  return "about " + bytes_text(plan.total()) + " (weights " + bytes_text(plan.weights) + ", gradients " +
         bytes_text(plan.gradients) + ", moments " + bytes_text(plan.moments) + ", activations " +
         bytes_text(plan.activations) + ", data " + bytes_text(plan.data) + ")" +
         (available ? " of " + bytes_text(*available) + " free" : "");
}

Json to_json(const MemoryPlan& plan) {
  return Json{{"weights", plan.weights},         {"gradients", plan.gradients}, {"moments", plan.moments},
              {"activations", plan.activations}, {"data", plan.data},           {"total", plan.total()}};
}

}  // namespace finetune
