#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "finetune/config/run_config.h"
#include "finetune/core/json.h"
#include "finetune/model/encoder_config.h"
#include "finetune/model/parameter.h"

namespace finetune {

/// Bytes that a training step needs on its device.
struct MemoryPlan {
  int64_t weights = 0;  ///< with the copies that products read in mixed precision
  int64_t gradients = 0;
  int64_t moments = 0;      ///< the optimizer's, and the weights' average
  int64_t activations = 0;  ///< kept for the backward pass of the largest micro-batch: an estimate
  int64_t data = 0;         ///< every split's token arena

  int64_t total() const { return weights + gradients + moments + activations + data; }
};

/// Bytes that a forward pass keeps for its backward pass: per token and layer eight vectors of the hidden
/// size and two of the intermediate one, which is what the packed encoder layer saves. With activation
/// checkpointing: a layer's input each, and all of one layer. precision: of the layers; the embeddings are
/// float32.
int64_t estimate_activations(const EncoderConfig& encoder, int64_t tokens,
                             at::ScalarType precision = at::kFloat);

/// Tokens of the largest micro-batch that rows of these lengths can make: `rows` of the longest, within
/// `token_budget` (0: none).
int64_t largest_micro_batch(std::vector<int32_t> lengths, int64_t rows, int64_t token_budget);

/// data_bytes: what the splits hold on the device.
MemoryPlan plan_memory(const EncoderConfig& encoder, const std::vector<Parameter>& parameters,
                       const OptimizerConfig& optimizer, int64_t micro_batch_tokens, int64_t data_bytes);

/// "about 1.2 GiB (weights 87 MiB, ...) of 22.1 GiB free".
std::string to_text(const MemoryPlan& plan, std::optional<int64_t> available);

/// The same figures in bytes.
Json to_json(const MemoryPlan& plan);

/// "1.2 GiB", "87 MiB", "12 KiB", "8 B".
std::string bytes_text(int64_t bytes);

}  // namespace finetune
