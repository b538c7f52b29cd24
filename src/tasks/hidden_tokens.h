#pragma once

#include <cstdint>
#include <vector>

#include "finetune/batching/batch.h"
#include "finetune/data/encoded_dataset.h"

namespace finetune {

/// Masking as BERT was trained with it (Devlin et al. 2019, section 3.1): of the chosen tokens 80 % are
/// hidden by the mask token, 10 % replaced by a random one, 10 % shown as they are; all are to be told.
struct HidingRule {
  double fraction = 0.15;  ///< of a row's tokens, special ones not counted; at least one
  int32_t mask_id = 0;
  int64_t vocab_size = 0;            ///< random tokens are drawn from
  std::vector<int32_t> special_ids;  ///< of tokens that are never chosen
};

/// Gives each row as many targets as tokens of it are to be hidden, numbered from 0: which tokens they are is
/// drawn anew for each step. Their labels are placeholders.
void add_targets(const HidingRule& rule, EncodedDataset& dataset);

/// Draws for each of the batch's targets a token of its row, none twice, hides it in `input_ids`, and makes
/// `positions` and `labels` those of the hidden tokens. Draws are a function of (seed, step, row in the
/// update, position). A target whose label is `ignore_index`, or whose row has too few tokens, stays ignored.
/// rng [2] int64: seed, step. Does not wait for the device.
Batch hide_tokens(Batch batch, const HidingRule& rule, const at::Tensor& rng, int64_t ignore_index);

}  // namespace finetune
