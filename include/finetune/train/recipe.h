#pragma once

#include "finetune/batching/batcher.h"
#include "finetune/model/classifier.h"
#include "finetune/optim/optimizer.h"
#include "finetune/train/inputs.h"
#include "finetune/train/memory_plan.h"

namespace finetune {

// The steps of `run` that others take too: the doctor rehearses a run without a run folder.

/// Deals the training rows to updates and micro-batches on `device` as the config says. The training rows may
/// still lie on the host: the batcher streams them, or moves them when told to.
Batcher make_batcher(const RunConfig& config, Inputs& inputs, c10::Device device);

/// Where `micro_batch_size` is `auto`, a GPU begins with as much of an update as what is free should hold.
void choose_micro_batch(const RunConfig& config, const Inputs& inputs, c10::Device device,
                        at::ScalarType precision, Batcher& batcher);

/// Total updates: `epochs` and `max_steps` are totals, the first reached ends; with neither, three epochs.
int64_t count_steps(const TrainConfig& train, int64_t steps_per_epoch);

/// The run's model on `device`, without values yet. precision: of its activations.
Classifier make_model(const RunConfig& config, const Inputs& inputs, c10::Device device,
                      at::ScalarType precision);

/// The optimizer of its parameters, with the schedule laid over `num_steps` updates.
Optimizer make_optimizer(const RunConfig& config, const Classifier& model, int64_t num_steps,
                         bool scales_loss);

/// How far below the head parameters learn in update `step` (`model.unfreeze`; see
/// `Optimizer::learn_down_to`). every: updates between one layer and the next, 0 for all from the start.
int64_t learning_depth(int64_t step, int64_t every);

/// Initial values, and the pretrained weights over them unless `model.init` is `random`.
void load_initial_weights(const RunConfig& config, Classifier& model);

/// What a step of the run needs on the device, with micro-batches as the batcher cuts them now.
MemoryPlan plan_memory(const RunConfig& config, const Inputs& inputs, const Classifier& model,
                       const Batcher& batcher);

}  // namespace finetune
