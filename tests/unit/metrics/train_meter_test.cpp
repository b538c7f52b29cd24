#include "finetune/metrics/train_meter.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

namespace finetune {
namespace {

at::Tensor scalar(double value) { return at::scalar_tensor(value, at::kFloat); }

/// One update of two micro-batches.
void update(TrainMeter& meter, double loss_one, double loss_two, double weight, double norm, double skipped,
            double rate) {
  meter.add_loss(scalar(loss_one));
  meter.add_loss(scalar(loss_two));
  meter.add_update(at::scalar_tensor(weight, at::kDouble), scalar(norm), scalar(skipped), scalar(rate));
}

TrainMeter::Values read(const TrainMeter& meter) { return TrainMeter::values(meter.start_read().wait()); }

TEST(TrainMeter, MeansAreOverLabelsAndTheLastUpdateIsShown) {
  TrainMeter meter(c10::Device(c10::kCPU));
  update(meter, 3, 1, 4, 0.5, 0, 0.01);
  update(meter, 2, 0, 1, 0.25, 1, 0.02);
  const auto values = read(meter);
  EXPECT_DOUBLE_EQ(values.loss, 6.0 / 5);
  EXPECT_DOUBLE_EQ(values.epoch_loss, 6.0 / 5);
  EXPECT_DOUBLE_EQ(values.grad_norm, 0.25);
  EXPECT_FLOAT_EQ(static_cast<float>(values.learning_rate), 0.02f);
  EXPECT_EQ(values.nonfinite, 1);
}

TEST(TrainMeter, IntervalsAndEpochsBeginApart) {
  TrainMeter meter(c10::Device(c10::kCPU));
  update(meter, 4, 4, 4, 1, 1, 0.1);
  meter.begin_interval();
  update(meter, 1, 1, 4, 1, 0, 0.1);
  auto values = read(meter);
  EXPECT_DOUBLE_EQ(values.loss, 0.5);
  EXPECT_DOUBLE_EQ(values.epoch_loss, 10.0 / 8);
  EXPECT_EQ(values.nonfinite, 0);
  meter.begin_epoch();
  values = read(meter);
  EXPECT_DOUBLE_EQ(values.loss, 0.5);
  EXPECT_DOUBLE_EQ(values.epoch_loss, 0);
}

TEST(TrainMeter, AnUpdateDoneAnewCountsOnce) {
  TrainMeter meter(c10::Device(c10::kCPU));
  meter.add_loss(scalar(7));
  meter.discard_update();
  update(meter, 3, 1, 4, 0.5, 0, 0.01);
  EXPECT_DOUBLE_EQ(read(meter).loss, 1.0);
  EXPECT_DOUBLE_EQ(read(meter).epoch_loss, 1.0);
}

TEST(TrainMeter, OfNothingIsZero) {
  const auto values = read(TrainMeter(c10::Device(c10::kCPU)));
  EXPECT_EQ(values.loss, 0);
  EXPECT_EQ(values.epoch_loss, 0);
}

TEST(TrainMeter, GoesOnFromCopiedSums) {
  TrainMeter one(c10::Device(c10::kCPU)), other(c10::Device(c10::kCPU));
  update(one, 3, 2, 4, 0.5, 0, 0.01);
  other.sums().copy_(one.sums());
  update(one, 1, 1, 2, 0.5, 0, 0.01);
  update(other, 1, 1, 2, 0.5, 0, 0.01);
  EXPECT_EQ(read(one).loss, read(other).loss);
  EXPECT_EQ(read(one).epoch_loss, read(other).epoch_loss);
}

TEST(TrainMeter, ReadingIsACopy) {
  TrainMeter meter(c10::Device(c10::kCPU));
  update(meter, 1, 1, 1, 1, 0, 0.1);
  const auto before = read(meter);
  meter.begin_interval();
  EXPECT_DOUBLE_EQ(before.loss, 2.0);
}

}  // namespace
}  // namespace finetune
