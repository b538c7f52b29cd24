// Trains a network for some updates on given token ids and writes what it computed, for the Python tests to
// compare with the reference. Nothing but the model, the kernels and the optimizer takes part: no tokenizer,
// no data files, no task.
//
//   network_probe MODEL_DIRECTORY ROWS.safetensors OUTPUT.safetensors OPTIONS.json
//
// ROWS: `input_ids` [T] int32, `row_offsets` [R + 1] int64, `second_segments` [R] int32, `labels` int64, [R]
// or [T] by OPTIONS.head ("sequence", "token"). Rows are taken in their order, `batch_rows` an update and
// `micro_rows` a forward pass, epoch after epoch.
//
// Tensors written: `logits`, `loss` and `grad/NAME` of the first update before it is applied; after `steps`
// updates `losses`, `grad_norms`, and `final_logits` of all rows without dropout.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <cstdio>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "finetune/batching/batch.h"
#include "finetune/checkpoint/pretrained.h"
#include "finetune/checkpoint/safetensors.h"
#include "finetune/core/file.h"
#include "finetune/model/classifier.h"
#include "finetune/optim/optimizer.h"
#include "finetune/optim/schedule.h"
#include "train/named_tensors.h"

namespace finetune {
namespace {

struct Rows {
  DeviceDataset dataset;
  std::vector<int64_t> offsets;
  at::Tensor labels;
};

template <typename T>
std::vector<T> values_of(const SafetensorsFile& file, const char* name) {
  const SafetensorsFile::Entry* const entry = file.find(name);
  TORCH_CHECK(entry != nullptr, "the rows have no tensor ", name);
  const auto bytes = file.bytes(*entry);
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

Rows read_rows(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  Rows rows;
  rows.offsets = values_of<int64_t>(file, "row_offsets");
  EncodedDataset encoded;
  encoded.input_ids = values_of<int32_t>(file, "input_ids");
  encoded.row_offsets = rows.offsets;
  encoded.second_segments = values_of<int32_t>(file, "second_segments");
  rows.dataset = to_device(std::move(encoded), c10::Device(c10::kCPU));
  rows.labels = at::tensor(at::ArrayRef<int64_t>(values_of<int64_t>(file, "labels")), at::kLong);
  return rows;
}

ModelConfig dropouts(const Json& options) {
  ModelConfig config;
  config.dropout = options.value("dropout", 0.0);
  config.attention_dropout = options.value("attention_dropout", 0.0);
  config.classifier_dropout = options.value("classifier_dropout", 0.0);
  config.activation_checkpointing = options.value("activation_checkpointing", false);
  return config;
}

class Network {
 public:
  Network(const std::filesystem::path& directory, const Rows& rows, const Json& options)
      : rows_(rows),
        token_(options.at("head") == "token"),
        model_(read_encoder_config(read_model_config(directory), dropouts(options)),
               {.kind = token_ ? HeadKind::kToken : HeadKind::kSequence,
                .num_outputs = options.at("num_labels").get<int64_t>()},
               c10::Device(c10::kCPU),
               options.value("precision", "fp32") == "bf16" ? at::kBFloat16 : at::kFloat) {
    const LoadReport report =
        load_pretrained(directory, named_tensors(model_.parameters()), model_.base_prefix());
    TORCH_CHECK(report.missing.empty() && report.unexpected.empty(), "missing: ", report.missing,
                ", unexpected: ", report.unexpected);
    refresh_copies(model_.parameters());
  }

  const std::vector<Parameter>& parameters() const { return model_.parameters(); }

  /// Logits of the rows [begin, end), which go through the model `micro_rows` at a time. `each` gets the
  /// logits and labels of every piece.
  template <typename F>
  void forward(int64_t begin, int64_t end, int64_t micro_rows, const ForwardMode& mode, const F& each) const {
    std::vector<int64_t> order(static_cast<size_t>(rows_.dataset.num_rows()));
    std::iota(order.begin(), order.end(), int64_t{0});
    const BatchSource source(rows_.dataset, order,
                             plan_batches(rows_.dataset.lengths, order, begin, end, micro_rows, 0));
    for (int64_t i = 0; i < source.size(); ++i) {
      Batch batch = source.batch(i);
      int64_t first = source.plan(i).begin, count = batch.num_rows;
      if (token_) {
        batch.positions = at::arange(batch.num_tokens, at::kLong);
        first = rows_.offsets[static_cast<size_t>(first)];
        count = batch.num_tokens;
      }
      each(model_.forward(batch, mode), rows_.labels.narrow(0, first, count));
    }
  }

  int64_t num_answers(int64_t begin, int64_t end) const {
    return token_ ? rows_.offsets[static_cast<size_t>(end)] - rows_.offsets[static_cast<size_t>(begin)]
                  : end - begin;
  }

 private:
  const Rows& rows_;
  bool token_;
  Classifier model_;
};

at::Tensor doubles(const std::vector<double>& values) {
  return at::tensor(at::ArrayRef<double>(values), at::kDouble);
}

void probe(const std::filesystem::path& directory, const Rows& rows, const Json& options,
           const std::filesystem::path& output) {
  const Network network(directory, rows, options);
  const int64_t num_rows = rows.dataset.num_rows(), num_steps = options.at("steps").get<int64_t>();
  const int64_t batch_rows = options.at("batch_rows").get<int64_t>();
  const int64_t micro_rows = options.value("micro_rows", batch_rows);
  OptimizerConfig adamw;
  adamw.learning_rate = options.value("learning_rate", 1e-3);
  adamw.weight_decay = options.value("weight_decay", 0.01);
  adamw.eps = options.value("eps", adamw.eps);
  Optimizer optimizer(network.parameters(), adamw,
                      learning_rates({.type = ScheduleType::kConstant}, adamw.learning_rate, num_steps));
  const auto rng = at::tensor(at::ArrayRef<int64_t>({options.value("seed", 42), 0}), at::kLong);
  NamedTensors results;
  std::vector<double> losses, grad_norms;
  int64_t begin = 0;
  for (int64_t step = 0; step < num_steps; ++step) {
    rng.select(0, 1).fill_(step);
    const int64_t end = std::min(begin + batch_rows, num_rows);
    const auto divisor = static_cast<double>(network.num_answers(begin, end));
    std::vector<at::Tensor> logits;
    double loss = 0;
    network.forward(begin, end, micro_rows, {.training = true, .rng = rng},
                    [&](const at::Tensor& out, const at::Tensor& labels) {
                      const auto part = at::cross_entropy_loss(out, labels, {}, at::Reduction::Sum) / divisor;
                      part.backward();
                      loss += part.item<double>();
                      logits.push_back(out.detach());
                    });
    losses.push_back(loss);
    if (step == 0) {
      results = {{"logits", at::cat(logits)}, {"loss", doubles({loss})}};
      for (const Parameter& parameter : network.parameters()) {
        results.push_back({"grad/" + parameter.name, parameter.grad.clone()});
      }
    }
    grad_norms.push_back(optimizer.step().grad_norm.item<double>());
    begin = end < num_rows ? end : 0;
  }
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> logits;
  network.forward(0, num_rows, num_rows, {},
                  [&](const at::Tensor& out, const at::Tensor&) { logits.push_back(out); });
  results.push_back({"final_logits", at::cat(logits)});
  results.push_back({"losses", doubles(losses)});
  results.push_back({"grad_norms", doubles(grad_norms)});
  write_safetensors(output, results, {});
}

}  // namespace
}  // namespace finetune

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr,
                 "usage: network_probe MODEL_DIRECTORY ROWS.safetensors OUTPUT.safetensors OPTIONS.json\n");
    return 2;
  }
  try {
    const auto options = finetune::Json::parse(finetune::read_file(argv[4]));
    at::set_num_threads(options.value("threads", 1));
    finetune::probe(argv[1], finetune::read_rows(argv[2]), options, argv[3]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "network_probe: %s\n", error.what());
    return 1;
  }
}
