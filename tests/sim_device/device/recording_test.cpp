/// Recorded work of the simulated accelerator: nothing runs while it is recorded, and a repetition follows
/// what its operands hold by then.

#include "../recording.h"

#include <ATen/ATen.h>

#include "support.h"

namespace finetune::sim {
namespace {

class SimRecording : public SimTest {
 protected:
  void TearDown() override {
    take_recording_counts();
    SimTest::TearDown();
  }
  const at::TensorOptions options_ = at::TensorOptions(at::kFloat).device(sim_device(0));
};

TEST_F(SimRecording, RunsNothingUntilItIsRepeated) {
  const at::Tensor input = at::full({4}, 2.0, options_), sum = at::full({4}, 1.0, options_);
  const auto work = record([&] { sum.add_(input * 3); });
  EXPECT_TRUE(at::equal(sum.cpu(), at::full({4}, 1.0)));
  work->replay();
  EXPECT_TRUE(at::equal(sum.cpu(), at::full({4}, 7.0)));
  input.fill_(10.0);
  work->replay();
  EXPECT_TRUE(at::equal(sum.cpu(), at::full({4}, 37.0)));
  EXPECT_EQ(take_recording_counts().replayed, 2);
}

TEST_F(SimRecording, NumbersOfTheHostAreThoseOfTheRecording) {
  const at::Tensor sum = at::zeros({1}, options_);
  double number = 5;
  const auto work = record([&] { sum.add_(number); });
  number = 100;
  work->replay();
  work->replay();
  EXPECT_EQ(sum.item<float>(), 10.0f);
}

TEST_F(SimRecording, HoldsABackwardPass) {
  at::Tensor weight = at::ones({2, 3}, options_).requires_grad_();
  weight.mutable_grad() = at::zeros({2, 3}, options_);
  const at::Tensor input = at::ones({4, 3}, options_);
  const auto work = record([&] { at::matmul(input, weight.t()).square().sum().backward(); });
  EXPECT_TRUE(at::equal(weight.grad().cpu(), at::zeros({2, 3})));
  work->replay();
  EXPECT_TRUE(at::equal(weight.grad().cpu(), at::full({2, 3}, 24.0)));
  input.fill_(0.0);
  work->replay();
  EXPECT_TRUE(at::equal(weight.grad().cpu(), at::full({2, 3}, 24.0)));
}

TEST_F(SimRecording, RefusesWhatAGraphCannotHold) {
  const at::Tensor value = at::ones({1}, options_);
  const auto refuses = [](const std::function<void()>& work) {
    try {
      record(work);
    } catch (const c10::Error& error) {
      return std::string(error.what_without_backtrace()).find("cannot be recorded") != std::string::npos;
    }
    return false;
  };
  EXPECT_TRUE(refuses([&] { value.item<float>(); }));
  EXPECT_TRUE(refuses([&] { value.copy_(at::zeros({1})); }));
  EXPECT_TRUE(refuses([&] {
    value.add_(1);
    value.cpu();
  }));
  EXPECT_EQ(value.item<float>(), 1.0f) << "what ran before the refusal must be undone";
  EXPECT_FALSE(recording());
}

}  // namespace
}  // namespace finetune::sim
