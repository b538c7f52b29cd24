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
#include "train/named_tensors.h"

namespace finetune {
namespace {

/// What one update's forward and backward passes give.
struct Update {
  NamedTensors inputs;  ///< of its rows, in their order
  at::Tensor logits;
  double loss = 0;
};

Update backward(const Classifier& model, const Task& task, const StepBatch& step, const at::Tensor& rng) {
  const ForwardMode mode{.training = true, .rng = rng};
  std::vector<at::Tensor> logits, ids, types, lengths;
  Update update;
  for (const Batch& batch : step.micro_batches) {
    const auto out = model.forward(batch, mode);
    const auto loss_sum = task.loss_sum(out, batch.labels);
    (loss_sum / step.label_weight).backward();
    update.loss += loss_sum.item<double>() / step.label_weight;
    logits.push_back(out.detach());
    ids.push_back(batch.input_ids);
    types.push_back(batch.token_type_ids);
    lengths.push_back(batch.cu_seqlens.diff());
  }
  update.logits = at::cat(logits);
  update.inputs = {{"input_ids", at::cat(ids)},
                   {"token_type_ids", at::cat(types)},
                   {"lengths", at::cat(lengths)},
                   {"rows", at::tensor(at::ArrayRef<int64_t>(step.rows), at::kLong)}};
  return update;
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
  Classifier model(inputs.encoder, inputs.task->head(), device.device);
  model.initialize_parameters(config.seed);
  load_pretrained(config.model.path, named_tensors(model.parameters()), model.base_prefix());
  const auto rates = learning_rates(config.schedule, config.optimizer.learning_rate, num_steps);
  Optimizer optimizer(model.parameters(), config.optimizer, rates);

  const auto rng = at::tensor(at::ArrayRef<int64_t>({static_cast<int64_t>(config.seed), 0}), at::kLong);
  NamedTensors results;
  std::vector<double> losses, grad_norms, used_rates;
  for (int64_t step = 0; step < num_steps; ++step) {
    rng.select(0, 1).fill_(step);
    const Update update = backward(model, *inputs.task, batcher.at(step), rng);
    losses.push_back(update.loss);
    if (step == 0) {
      results = update.inputs;
      results.push_back({"logits", update.logits});
      results.push_back({"loss", doubles({update.loss})});
      for (const auto& parameter : model.parameters()) {
        results.push_back({"grad/" + parameter.name, parameter.grad.clone()});
      }
    }
    const UpdateStats stats = optimizer.step();
    grad_norms.push_back(stats.grad_norm.item<double>());
    used_rates.push_back(stats.learning_rate.item<double>());
  }
  std::vector<at::Tensor> final_logits;
  for_each_batch(model, inputs.train,
                 [&](int64_t, const Batch&, const at::Tensor& logits) { final_logits.push_back(logits); });
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
