#pragma once

/// One training step as a trainer does it, with the batch prefetched on a side stream, and places where a
/// fault can be planted: each member function object does the right thing until a test replaces it.

#include <functional>

#include "encoder.h"
#include "support.h"

namespace finetune::sim {

struct TrainingStep {
  explicit TrainingStep(int64_t batch = 8) : model(shape, kSim), optimizer(model.parameters()) {
    model.init(7);
    at::Generator data = at::detail::createCPUGenerator(3);
    host_ids = at::randint(shape.vocabulary, {batch, 12}, data, at::kLong).pin_memory();
    host_labels = at::randint(shape.classes, {batch}, data, at::kLong).pin_memory();
    loss_sum = at::zeros({}, kOnSim);
  }

  EncoderShape shape;
  Encoder model;
  AdamW optimizer;
  c10::Stream main = main_stream();
  c10::Stream side = side_stream();
  at::Tensor host_ids, host_labels, ids, labels, loss, loss_sum;
  at::Tensor kept;  ///< for what a fault has to keep
  c10::Event ready{at::kPrivateUse1};

  std::function<void(TrainingStep&)> upload = [](TrainingStep& s) {
    const c10::StreamGuard on(s.side);
    s.ids = s.host_ids.to(kSim, /*non_blocking=*/true);
    s.labels = s.host_labels.to(kSim, /*non_blocking=*/true);
    s.ready.record(s.side);
  };
  std::function<void(TrainingStep&)> wait = [](TrainingStep& s) { s.main.wait(s.ready); };
  std::function<void(TrainingStep&)> record = [](TrainingStep& s) {
    s.ids.record_stream(s.main);
    s.labels.record_stream(s.main);
  };
  std::function<void(TrainingStep&)> before_forward = [](TrainingStep&) {};
  std::function<void(TrainingStep&)> before_backward = [](TrainingStep&) {};
  std::function<void(TrainingStep&)> before_update = [](TrainingStep&) {};
  std::function<void(TrainingStep&)> after_update = [](TrainingStep&) {};

  /// Nothing in it may wait for the device; afterwards the host reads the loss, as at a log point.
  double run() {
    {
      const StrictSection strict(StrictSection::kWaits);
      upload(*this);
      wait(*this);
      record(*this);
      before_forward(*this);
      loss = model.loss(ids, labels);
      before_backward(*this);
      loss.backward();
      before_update(*this);
      loss_sum.add_(loss.detach());
      optimizer.step(1e-3);
      after_update(*this);
      for (at::Tensor* tensor : {&ids, &labels, &loss}) tensor->reset();
    }
    return loss_sum.item<double>();
  }
};

/// A fault and the words that must be in what is thrown or reported.
struct Fault {
  const char* name;
  std::function<void(TrainingStep&)> plant;
  const char* says;
};

inline void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }

inline std::string fault_name(const ::testing::TestParamInfo<Fault>& info) { return info.param.name; }

/// What the step throws and reports, to the end of all its work and tensors.
inline std::string caught(const std::function<void(TrainingStep&)>& plant) {
  std::string text = thrown_by([&] {
    TrainingStep step;
    plant(step);
    step.run();
  });
  api().synchronizeDevice(0);
  return text + "\n" + reports();
}

}  // namespace finetune::sim
