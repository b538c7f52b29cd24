#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "finetune/core/json.h"

namespace finetune {

/// The best evaluation so far.
struct BestResult {
  int64_t step = 0;
  double value = 0;
  Json metrics;  ///< of the validation data
};

/// Where a run is. Together with the tensors of model, optimizer and meter, all that a resume needs.
struct TrainState {
  int64_t step = 0;        ///< updates attempted
  int64_t evaluated = -1;  ///< the step whose evaluation is done
  int64_t rows_seen = 0;
  int64_t tokens_seen = 0;
  double train_seconds = 0;        ///< without evaluation and saving
  int64_t micro_batch_tokens = 0;  ///< what `train.micro_batch_size: auto` came to; 0 where it is not auto
  int64_t first_epoch = 0;         ///< epochs that a Python script had finished before step 0
  Json source;                     ///< of a run that goes on from a .pth: see restore_python; else null
  std::optional<BestResult> best;
  int64_t evaluations_without_gain = 0;  ///< one after the other; what `train.early_stopping` counts
};

Json to_json(const TrainState& state);
TrainState train_state_from(const Json& json);

}  // namespace finetune
