/// Streamed batches equal packed ones, whatever the order in which workers and consumer get on.
/// tests/sim_device/product/prefetch_test.cpp does the same on a device with streams.

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "batching/device_dataset.h"
#include "batching/prefetcher.h"
#include "batching/schedule.h"

namespace finetune {
namespace {

using Position = PrefetchRing::Position;

const c10::Device kCpu(c10::kCPU);

void expect_same(const Batch& batch, const Batch& expected) {
  EXPECT_TRUE(batch.input_ids.equal(expected.input_ids));
  EXPECT_TRUE(batch.token_type_ids.equal(expected.token_type_ids));
  EXPECT_TRUE(batch.position_ids.equal(expected.position_ids));
  EXPECT_TRUE(batch.token_keys.equal(expected.token_keys));
  EXPECT_TRUE(batch.cu_seqlens.equal(expected.cu_seqlens));
  ASSERT_EQ(batch.labels.defined(), expected.labels.defined());
  if (batch.labels.defined()) {
    EXPECT_TRUE(batch.labels.equal(expected.labels));
  }
  ASSERT_EQ(batch.positions.defined(), expected.positions.defined());
  if (batch.positions.defined()) {
    EXPECT_TRUE(batch.positions.equal(expected.positions));
  }
  EXPECT_EQ(batch.num_rows, expected.num_rows);
  EXPECT_EQ(batch.num_tokens, expected.num_tokens);
  EXPECT_EQ(batch.max_length, expected.max_length);
}

class Prefetch : public ::testing::Test {
 protected:
  static constexpr int64_t kSteps = 4;

  DeviceDataset dataset_ = testing::make_dataset({3, 5, 2, 4, 6, 2, 3, 5, 4, 1, 7});
  Batcher::Options options_{.batch_size = 3, .micro_batch_tokens = 8, .seed = 5};
  std::shared_ptr<EpochPlans> plans_ = std::make_shared<EpochPlans>(dataset_.lengths, options_, kSteps);

  /// The batches from `first` on, packed from the arena.
  std::vector<Batch> expected(Position first, int64_t count) {
    std::vector<Batch> batches;
    for (int64_t epoch = first.epoch, index = first.index;; ++epoch, index = 0) {
      const auto plan = plans_->at(epoch);
      const BatchSource source(dataset_, plan->order, plan->micro_batches);
      for (; index < source.size(); ++index) {
        batches.push_back(source.batch(index));
        if (static_cast<int64_t>(batches.size()) == count) return batches;
      }
    }
  }
};

TEST_F(Prefetch, TargetsAreThoseOfThePackedBatches) {
  dataset_ = testing::make_dataset_of_items({3, 5, 3, 4, 6, 4, 3, 5, 4, 3, 7});
  plans_ = std::make_shared<EpochPlans>(dataset_.lengths, options_, kSteps);
  constexpr int64_t kBatches = 8;
  const auto batches = expected({0, 0}, kBatches);
  PrefetchRing ring(dataset_, kCpu, plans_, {0, 0}, 3);
  size_t taken = 0;
  testing::run_schedule(ring, kBatches, 1, [&](const Batch& batch) { expect_same(batch, batches[taken++]); });
}

TEST_F(Prefetch, EveryScheduleGivesTheSameBatches) {
  constexpr int64_t kBatches = 20;  // over more than two epochs
  const auto batches = expected({0, 0}, kBatches);
  for (unsigned seed = 0; seed < 200; ++seed) {
    PrefetchRing ring(dataset_, kCpu, plans_, {0, 0}, 1 + seed % 8);
    size_t taken = 0;
    testing::run_schedule(ring, kBatches, seed,
                          [&](const Batch& batch) { expect_same(batch, batches[taken++]); });
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

TEST_F(Prefetch, LabelsMayHaveAnyShapeOrBeMissing) {
  for (const at::Tensor& labels : {at::rand({11, 3}), at::Tensor()}) {
    dataset_.labels = labels;
    const auto batches = expected({0, 0}, 6);
    PrefetchRing ring(dataset_, kCpu, plans_, {0, 0}, 4);
    size_t taken = 0;
    testing::run_schedule(ring, 6, 1, [&](const Batch& batch) { expect_same(batch, batches[taken++]); });
  }
}

TEST_F(Prefetch, ThreadsGiveTheSameBatchesFromAnyPositionOn) {
  for (const int64_t num_workers : {1, 3}) {
    const auto batches = expected({1, 2}, 200);
    Prefetcher prefetcher(dataset_, kCpu, plans_, {1, 2}, num_workers);
    EXPECT_EQ(prefetcher.next(), (Position{1, 2}));
    for (const Batch& batch : batches) expect_same(prefetcher.take(), batch);
  }
}

TEST_F(Prefetch, MayEndAtAnyTime) {
  for (int taken = 0; taken < 12; ++taken) {
    Prefetcher prefetcher(dataset_, kCpu, plans_, {0, 0}, std::nullopt);
    for (int i = 0; i < taken; ++i) prefetcher.take();
  }
}

TEST_F(Prefetch, WhatStopsAWorkerIsThrownWhereABatchIsTaken) {
  PrefetchRing ring(dataset_, kCpu, plans_, {0, 0}, 2);
  ring.fail(std::make_exception_ptr(std::runtime_error("the disk is gone")));
  EXPECT_TRUE(ring.ready());
  EXPECT_THAT([&] { ring.take(); }, ::testing::ThrowsMessage<std::runtime_error>("the disk is gone"));
}

TEST_F(Prefetch, AFullRingHasNothingToClaim) {
  PrefetchRing ring(dataset_, kCpu, plans_, {0, 0}, 2);
  EXPECT_FALSE(ring.ready());
  const auto first = ring.claim(), second = ring.claim();
  ASSERT_TRUE(first && second);
  EXPECT_FALSE(ring.claim());
  ring.fill(*second);
  ring.commit(*second);
  EXPECT_FALSE(ring.ready()) << "the first batch is not there yet";
  ring.fill(*first);
  ring.commit(*first);
  EXPECT_TRUE(ring.ready());
  ring.close();
  EXPECT_FALSE(ring.wait_for_slot());
}

}  // namespace
}  // namespace finetune
