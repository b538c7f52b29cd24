// Takes the first updates of a run exactly as training does and writes what the program's own log does not
// show, for the Python tests to compare with the reference:
//
//   parity_probe CONFIG.json OUTPUT.safetensors NUM_STEPS [KEY=VALUE]...
//
// Tensors written: `rows`, `lengths`, `input_ids`, `token_type_ids`, `logits`, `loss` and `grad/NAME` of the
// first update before it is applied (`logits` and ids in the order of its rows); `learning_rates` (the whole
// table), and, after NUM_STEPS updates: `losses`, `grad_norms`, `used_rates` (one a step), `final_logits` and
// `final_loss` of all training rows without dropout, `param/NAME`.
#include <ATen/ATen.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "finetune/batching/batcher.h"
#include "finetune/checkpoint/pretrained.h"
#include "finetune/checkpoint/safetensors.h"
#include "finetune/config/load.h"
#include "finetune/device/device.h"
#include "finetune/model/classifier.h"
#include "finetune/optim/optimizer.h"
#include "finetune/optim/schedule.h"
#include "finetune/train/evaluate.h"
#include "finetune/train/inputs.h"
#include "finetune/train/update.h"
#include "train/named_tensors.h"

namespace finetune {
namespace {

/// What the program's own log does not show of an update before it is applied.
struct Seen {
  NamedTensors inputs;  ///< of its rows, in their order
  at::Tensor logits;
  double loss = 0;
};

Seen accumulate(Update& update, int64_t number, const StepBatch& step) {
  std::vector<at::Tensor> logits, ids, types, lengths;
  Seen seen;
  update.begin(number, step.label_weight);
  for (const Batch& batch : step.micro_batches) {
    const Update::Forward forward = update.forward(batch);
    update.backward(forward);
    seen.loss += forward.loss_sum.item<double>() / step.label_weight;
    logits.push_back(forward.logits.detach());
    ids.push_back(batch.input_ids);
    types.push_back(batch.token_type_ids);
    lengths.push_back(batch.cu_seqlens.diff());
  }
  seen.logits = at::cat(logits);
  seen.inputs = {{"input_ids", at::cat(ids)},
                 {"token_type_ids", at::cat(types)},
                 {"lengths", at::cat(lengths)},
                 {"rows", at::tensor(at::ArrayRef<int64_t>(step.rows), at::kLong)}};
  return seen;
}

at::Tensor doubles(const std::vector<double>& values) {
  return at::tensor(at::ArrayRef<double>(values), at::kDouble);
}

void probe(const RunConfig& config, int64_t num_steps, const std::filesystem::path& output) {
  const OpenDevice device = open_device(config.device, config.threads);
  Inputs inputs = load_inputs(config, device.device);
  const auto& micro = config.train.micro_batch_size;
  Batcher batcher(inputs.train, inputs.task->label_weights(inputs.train),
                  {.batch_size = config.train.batch_size,
                   .micro_batch_rows = micro.automatic ? 0 : micro.value,
                   .drop_last = config.train.drop_last,
                   .shuffle = config.data.shuffle,
                   .seed = config.seed});
  Classifier model(inputs.encoder, inputs.task->head(), device.device, at::kFloat, config.model);
  model.initialize_parameters(config.seed);
  load_pretrained(config.model.path, named_tensors(model.parameters()), model.base_prefix());
  const auto rates = learning_rates(config.schedule, config.optimizer.learning_rate, num_steps);
  Optimizer optimizer(model.parameters(), config.optimizer, rates);

  TrainMeter meter(device.device);
  Update update(model, *inputs.task, optimizer, meter, config.seed);
  NamedTensors results;
  std::vector<double> losses, grad_norms, used_rates;
  for (int64_t step = 0; step < num_steps; ++step) {
    const Seen seen = accumulate(update, step, batcher.at(step));
    losses.push_back(seen.loss);
    if (step == 0) {
      results = seen.inputs;
      results.push_back({"logits", seen.logits});
      results.push_back({"loss", doubles({seen.loss})});
      for (const auto& parameter : model.parameters()) {
        if (!parameter.frozen()) results.push_back({"grad/" + parameter.name, parameter.grad.clone()});
      }
    }
    const UpdateStats stats = update.apply();
    grad_norms.push_back(stats.grad_norm.item<double>());
    used_rates.push_back(stats.learning_rate.item<double>());
  }
  std::vector<at::Tensor> final_logits;
  for_each_batch(model, *inputs.task, inputs.train,
                 [&](const Answered& answered) { final_logits.push_back(answered.logits); });
  results.push_back({"final_logits", at::cat(final_logits)});
  results.push_back({"final_loss", doubles({evaluate(model, inputs.train, *inputs.task).at("loss")})});
  results.push_back({"losses", doubles(losses)});
  results.push_back({"grad_norms", doubles(grad_norms)});
  results.push_back({"used_rates", doubles(used_rates)});
  results.push_back({"learning_rates", at::tensor(at::ArrayRef<float>(rates), at::kFloat)});
  for (const auto& [name, tensor] : named_tensors(model.parameters()))
    results.push_back({"param/" + name, tensor});
  write_safetensors(output, results, {});
}

}  // namespace
}  // namespace finetune

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: parity_probe CONFIG.json OUTPUT.safetensors NUM_STEPS [KEY=VALUE]...\n");
    return 2;
  }
  try {
    const std::vector<std::string> overrides(argv + 4, argv + argc);
    finetune::probe(finetune::load_run_config(argv[1], overrides), std::atoll(argv[3]), argv[2]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "parity_probe: %s\n", error.what());
    return 1;
  }
}
