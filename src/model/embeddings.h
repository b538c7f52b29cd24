#pragma once

#include <optional>
#include <string>

#include "finetune/batching/batch.h"
#include "finetune/model/forward_mode.h"
#include "finetune/model/parameter.h"

namespace finetune {

/// What a family's embeddings consist of, and the names of their parameters after `prefix`.
struct EmbeddingSpec {
  std::string prefix;
  std::string word = "word_embeddings.weight";
  std::string norm = "LayerNorm";
  std::string projection = {};  ///< a linear layer [hidden, width] before the norm; empty: none
  int64_t vocab_size = 0;
  int64_t width = 0;            ///< of the tables
  int64_t hidden_size = 0;      ///< of the result; differs from the width where there is a projection
  int64_t num_positions = 0;    ///< rows of the position table; 0: none
  int64_t num_token_types = 0;  ///< 0: none
  /// RoBERTa's positions: those of other tokens count from one above it, its own position is itself. Unset:
  /// positions count from 0.
  std::optional<int64_t> padding_id = {};
  bool positions_last = false;  ///< the position table comes after the norm in the family's order
  bool norm_bias = true;
  double norm_eps = 1e-12;
  double dropout = 0.0;
};

/// Word, position and token type embeddings, their sum's LayerNorm, and dropout (site 0).
class Embeddings {
 public:
  Embeddings(EmbeddingSpec spec, ParameterStore& store);

  /// [N, hidden_size] float32
  at::Tensor forward(const Batch& batch, const ForwardMode& mode) const;

 private:
  at::Tensor position_ids(const Batch& batch) const;
  at::Tensor token_type_ids(const Batch& batch) const;

  EmbeddingSpec spec_;
  at::ScalarType precision_;
  at::Tensor word_, position_, type_, norm_weight_, norm_bias_;
  Projection projection_;
};

}  // namespace finetune
