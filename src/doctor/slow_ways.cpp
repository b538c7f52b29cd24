#include "slow_ways.h"

#include <ATen/ATen.h>
#include <ATen/DeviceAccelerator.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <numeric>

#include "finetune/core/clock.h"
#include "finetune/data/encoded_dataset.h"
#include "finetune/device/available_memory.h"
#include "finetune/optim/schedule.h"
#include "finetune/train/model_directory.h"

namespace finetune::doctor {
namespace {

constexpr int kRounds = 3;
/// A round is at least so long, for the clock's sake and that of what else the machine does.
constexpr double kRoundSeconds = 0.05;

/// Where a progress line goes: the terminal, or, where there is none, nowhere.
class Console {
 public:
  Console() : is_terminal_(::isatty(STDERR_FILENO) != 0) {
    descriptor_ = is_terminal_ ? STDERR_FILENO : ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  }
  ~Console() {
    if (!is_terminal_) ::close(descriptor_);
  }
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  void write(double loss) const {
    char line[64];
    const int length = std::snprintf(line, sizeof(line), "\rstep loss %.6f\r                    \r", loss);
    // What could not be written is no fault of the measurement.
    [[maybe_unused]] const auto written = ::write(descriptor_, line, static_cast<size_t>(length));
  }
  bool is_terminal() const { return is_terminal_; }

 private:
  bool is_terminal_;
  int descriptor_;
};

class SlowWays {
 public:
  SlowWays(Job& job, const StepTimes& plain, int64_t comparison_rows, const DeviceMeasures& measures)
      : job_(job),
        plain_(plain.total),
        pass_share_(1.0 - (plain.data + plain.update) / plain.total),
        comparison_rows_(comparison_rows),
        measures_(measures),
        device_(job.device().device) {}

  std::vector<SlowWay> measure() {
    return {host_read(),        console_write(), pageable_copy(), tokenising(), host_optimizer(),
            checkpoint_alive(), empty_cache(),   padding(),       precision(),  built_outside()};
  }

 private:
  using Work = std::function<void()>;
  bool on_host() const { return device_.is_cpu(); }

  double seconds_of(const Work& work) {
    job_.synchronize();
    const double began = monotonic_seconds();
    work();
    job_.synchronize();
    return monotonic_seconds() - began;
  }

  /// Mean seconds of `work`, repeated to fill a round.
  double repeated(const Work& work) {
    work();
    int64_t count = 0;
    const double seconds = seconds_of([&] {
      const double began = monotonic_seconds();
      for (; count < 2 || (count < 1000 && monotonic_seconds() - began < kRoundSeconds); ++count) work();
    });
    return seconds / static_cast<double>(count);
  }

  /// Cost of steps with `slow` to that of steps with `plain`, in turns; each gets the step's number.
  double in_turns(const std::function<void(int64_t)>& plain, const std::function<void(int64_t)>& slow) {
    plain(0);
    slow(0);
    const double one = std::max(seconds_of([&] { plain(0); }), 1e-6);
    const auto steps = std::clamp<int64_t>(static_cast<int64_t>(kRoundSeconds / one), 1, 50);
    const auto run = [&](const std::function<void(int64_t)>& step) {
      return seconds_of([&] {
        for (int64_t i = 0; i < steps; ++i) step(i);
      });
    };
    // The shortest round of each is the one that other programs disturbed least.
    double with = run(slow), without = run(plain);
    for (int round = 1; round < kRounds; ++round) {
      with = std::min(with, run(slow));
      without = std::min(without, run(plain));
    }
    return with / without;
  }

  /// Cost of a step with something more to do. On a device that works beside the host that is no sum: the two
  /// are run in turns. Where a call returns when its work is done it is one, and the addition alone is
  /// measured.
  double with_extra(const Work& extra) {
    if (!measures_.asynchronous) return 1.0 + repeated(extra) / plain_;
    return in_turns([&](int64_t number) { job_.step(number); },
                    [&](int64_t number) {
                      job_.step(number);
                      extra();
                    });
  }

  double loss_on_host() const { return job_.last_loss().to(at::kCPU).item<float>(); }

  SlowWay host_read() {
    return {.name = "host read each step",
            .how = "the loss is read after every step",
            .ratio = with_extra([&] { loss_on_host(); })};
  }

  SlowWay console_write() {
    const Console console;
    return {.name = "console write each step",
            .how = "the loss is read and printed after every step",
            .ratio = with_extra([&] { console.write(loss_on_host()); }),
            .note = console.is_terminal() ? "" : "stderr is no terminal here: written to /dev/null"};
  }

  SlowWay pageable_copy() {
    SlowWay way{.name = "pageable copy each batch", .how = "each batch is copied from ordinary host memory"};
    if (on_host()) {
      way.note = "the CPU's memory is the host's: nothing to copy";
      return way;
    }
    const auto tokens = static_cast<int64_t>(job_.tokens(0));
    const auto ids = at::zeros({3, tokens}, at::kInt), keys = at::zeros({tokens}, at::kLong);
    const auto labels = at::zeros({job_.batch_size()}, at::kLong);
    way.ratio = with_extra([&] {
      for (const at::Tensor& tensor : {ids[0], ids[1], ids[2], keys, labels}) tensor.to(device_);
    });
    return way;
  }

  SlowWay tokenising() {
    const Inputs& inputs = job_.inputs();
    const DataConfig& data = job_.config().data;
    const TextDataset rows = read_dataset(data.train, data, LabelPresence::kOptional, job_.batch_size());
    const EncodeOptions options = encode_options(data, inputs.encoder.max_positions);
    std::vector<int32_t> ids;
    return {.name = "tokenising in the step",
            .how = "the batch's texts are tokenised on the training thread",
            .ratio = with_extra([&] {
              ids.clear();
              for (size_t row = 0; row < rows.texts.size(); ++row) {
                const auto pair =
                    rows.pairs.empty() ? std::nullopt : std::optional<std::string_view>(rows.pairs[row]);
                inputs.tokenizer->append(rows.texts[row], pair, options, ids);
              }
            })};
  }

  SlowWay host_optimizer() {
    SlowWay way{.name = "optimizer state on the host",
                .how = "gradients go to the host, the update is made there, weights come back"};
    if (on_host()) {
      way.note = "the CPU's memory is the host's";
      return way;
    }
    std::vector<Parameter> host;
    std::vector<Parameter> parameters;
    for (const Parameter& parameter : job_.model().parameters()) {
      if (parameter.frozen()) continue;
      parameters.push_back(parameter);
      host.push_back({parameter.name, parameter.value.to(at::kCPU), at::zeros(parameter.value.sizes())});
    }
    const OptimizerConfig& config = job_.config().optimizer;
    Optimizer optimizer(host, config, learning_rates(job_.config().schedule, config.learning_rate, 1000));
    way.ratio = with_extra([&] {
      for (size_t i = 0; i < host.size(); ++i) host[i].grad.copy_(parameters[i].grad);
      optimizer.step();
      for (size_t i = 0; i < host.size(); ++i) parameters[i].value.copy_(host[i].value);
    });
    return way;
  }

  SlowWay checkpoint_alive() {
    const MemoryPlan plan = job_.plan();
    const int64_t loaded = plan.weights + plan.moments;
    return {.name = "a loaded checkpoint kept alive",
            .how = "a dictionary of " + bytes_text(loaded) + " stays beside the model it was copied into",
            .ratio = static_cast<double>(plan.total() + loaded) / static_cast<double>(plan.total()),
            .of = "memory"};
  }

  SlowWay empty_cache() {
    SlowWay way{.name = "emptyCache each step",
                .how = "the allocator's cache is given back after every step"};
    if (on_host()) {
      way.note = "the CPU's allocator keeps no cache";
      return way;
    }
    try {
      way.ratio = with_extra([] { at::accelerator::emptyCache(); });
    } catch (const c10::Error& error) {
      way.note = error.what_without_backtrace();
    }
    return way;
  }

  /// Forward and backward pass over the first rows of `dataset`.
  double pass_seconds(const DeviceDataset& dataset, int64_t rows) {
    std::vector<int64_t> order(static_cast<size_t>(rows));
    std::iota(order.begin(), order.end(), int64_t{0});
    const BatchSource source(dataset, order, plan_batches(dataset.lengths, order, 0, rows, rows, 0));
    const auto rng = at::zeros({2}, at::TensorOptions(at::kLong).device(device_));
    return repeated(
        [&] { job_.model().forward(source.batch(0), {.training = true, .rng = rng}).sum().backward(); });
  }

  SlowWay padding() {
    const Inputs& inputs = job_.inputs();
    const int64_t length = std::min(job_.config().data.max_length, inputs.encoder.max_positions);
    const auto& lengths = inputs.train.lengths;
    const double mean =
        std::accumulate(lengths.begin(), lengths.end(), 0.0) / static_cast<double>(lengths.size());
    SlowWay way{.name = "padding to max_length",
                .how = "every row is filled up to " + std::to_string(length) +
                       " tokens (mean of the rows: " + std::to_string(std::llround(mean)) + ")"};
    if (mean > 0.95 * static_cast<double>(length)) {
      way.note = "the rows fill their " + std::to_string(length) + " tokens: nothing to pad";
      return way;
    }
    const auto rows = std::clamp<int64_t>(
        std::llround(static_cast<double>(comparison_rows_) * mean / static_cast<double>(length)), 1,
        comparison_rows_);
    EncodedDataset padded;
    for (int64_t row = 0; row <= rows; ++row) padded.row_offsets.push_back(row * length);
    padded.input_ids = std::vector<int32_t>(static_cast<size_t>(rows * length), inputs.tokenizer->pad_id());
    padded.second_segments = std::vector<int32_t>(static_cast<size_t>(rows), static_cast<int32_t>(length));
    const double a_padded_row =
        pass_seconds(to_device(std::move(padded), device_), rows) / static_cast<double>(rows);
    const double a_row =
        pass_seconds(inputs.train.to(device_), comparison_rows_) / static_cast<double>(comparison_rows_);
    way.ratio = 1.0 + pass_share_ * (a_padded_row / a_row - 1.0);
    return way;
  }

  /// The job with other settings, on the rows of a comparison.
  std::unique_ptr<Job> other_job(const std::function<void(RunConfig&)>& change) const {
    RunConfig config = job_.config();
    config.train.batch_size = comparison_rows_;
    change(config);
    return std::make_unique<Job>(config, job_.device(), job_.inputs());
  }

  bool has_room_for_another() const {
    const auto room = available_memory(device_);
    return !room || *room > 2 * job_.plan().total();
  }

  SlowWay precision() {
    SlowWay way{.name = "fp32 instead of bf16", .how = "products alone"};
    const double fp32 = measures_.tflops("fp32"), bf16 = measures_.tflops("bf16");
    if (fp32 <= 0 || bf16 <= 0) {
      way.note = "bf16 products could not be measured";
      return way;
    }
    way.ratio = bf16 / fp32;
    if (bf16 < fp32) {
      way.note = "this device is slower in bf16: stay with fp32";
    } else if (has_room_for_another()) {
      const auto in = [&](Precision format) {
        return other_job([&](RunConfig& config) { config.train.precision = format; });
      };
      const auto full = in(Precision::kFp32), low = in(Precision::kBf16);
      way.how = "whole steps of " + std::to_string(comparison_rows_) + " rows";
      way.ratio =
          in_turns([&](int64_t number) { low->step(number); }, [&](int64_t number) { full->step(number); });
    }
    return way;
  }

  SlowWay built_outside() {
    SlowWay way{.name = "model built outside the training routine",
                .how = "a second model and optimizer, made on the device by the caller beforehand"};
    if (!has_room_for_another()) {
      way.note = "no room for a second model";
      return way;
    }
    const auto outside = other_job([](RunConfig&) {});
    const int64_t rows = job_.batch_size();
    job_.set_batch_size(comparison_rows_);
    way.ratio =
        in_turns([&](int64_t number) { job_.step(number); }, [&](int64_t number) { outside->step(number); });
    job_.set_batch_size(rows);
    way.note = "by itself it costs nothing";
    return way;
  }

  Job& job_;
  double plain_;       ///< seconds of a step
  double pass_share_;  ///< of a step that grows with its tokens
  int64_t comparison_rows_;
  const DeviceMeasures& measures_;
  c10::Device device_;
};

}  // namespace

std::vector<SlowWay> measure_slow_ways(Job& job, const StepTimes& plain, int64_t comparison_rows,
                                       const DeviceMeasures& measures) {
  return SlowWays(job, plain, comparison_rows, measures).measure();
}

}  // namespace finetune::doctor
