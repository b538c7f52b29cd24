/// Rows streamed to sim:0 through the pinned ring: a copy stream, events, copies that land late. Whatever the
/// order in which workers and trainer get on, the same weights come out as from resident rows, nothing races
/// and the host never waits for the device.

#include "../../unit/batching/schedule.h"
#include "../device/support.h"
#include "tiny_run.h"

namespace finetune::sim {
namespace {

constexpr int64_t kRows = 23, kVocabulary = 40, kSteps = 6, kBatches = 20;

DeviceDataset rows_on_the_host() {
  std::mt19937 random(7);
  EncodedDataset encoded;
  encoded.row_offsets.push_back(0);
  for (int64_t row = 0; row < kRows; ++row) {
    const auto length = 2 + random() % 6;
    for (unsigned i = 0; i < length; ++i) {
      encoded.input_ids.push_back(static_cast<int32_t>(random() % kVocabulary));
    }
    encoded.row_offsets.push_back(static_cast<int64_t>(encoded.input_ids.size()));
    encoded.second_segments.push_back(static_cast<int32_t>(1 + random() % length));
    encoded.labels.push_back(row % 3);
  }
  return to_device(encoded, c10::Device(c10::kCPU));
}

/// Weights that every token and label of every batch moves, in an order that counts.
class ToyModel {
 public:
  void step(const Batch& batch) {
    const auto ids = batch.input_ids.to(at::kLong);
    const auto noise =
        (batch.position_ids + batch.token_type_ids * 3 + batch.token_keys.remainder(7)).to(at::kFloat);
    weights_.mul_(0.97).index_add_(0, ids, (weights_.index_select(0, ids) + noise).sin());
    weights_.add_((batch.labels.sum() + batch.cu_seqlens.sum()).to(at::kFloat).cos());
  }
  at::Tensor weights() const { return weights_.cpu(); }

 private:
  at::Tensor weights_ = at::zeros({kVocabulary}, kOnSim);
};

class SimPrefetch : public SimTest {
 protected:
  DeviceDataset dataset_ = rows_on_the_host();
  std::shared_ptr<EpochPlans> plans_ = std::make_shared<EpochPlans>(
      dataset_.lengths, Batcher::Options{.batch_size = 4, .micro_batch_tokens = 11, .seed = 3}, kSteps);

  at::Tensor resident_weights() {
    const DeviceDataset resident = dataset_.to(kSim);
    ToyModel model;
    int64_t taken = 0;
    for (int64_t epoch = 0; taken < kBatches; ++epoch) {
      const auto plan = plans_->at(epoch);
      const BatchSource source(resident, plan->order, plan->micro_batches);
      for (int64_t i = 0; i < source.size() && taken < kBatches; ++i, ++taken) model.step(source.batch(i));
    }
    return model.weights();
  }
};

TEST_F(SimPrefetch, AThousandSchedulesGiveTheSameWeights) {
  const at::Tensor expected = resident_weights();
  ASSERT_TRUE(expected.isfinite().all().item<bool>());
  ASSERT_GT(plans_->at(0)->micro_batches.size(), 6u);
  for (unsigned seed = 0; seed < 1000; ++seed) {
    ToyModel model;
    PrefetchRing ring(dataset_, kSim, plans_, {0, 0}, 1 + seed % 7);
    {
      const StrictSection strict(StrictSection::kWaits);
      testing::run_schedule(ring, kBatches, seed, [&](const Batch& batch) { model.step(batch); });
    }
    ASSERT_TRUE(model.weights().equal(expected)) << "schedule " << seed;
    ASSERT_EQ(reports(), "") << "schedule " << seed;
  }
}

TEST_F(SimPrefetch, CopiesTwoBatchesAhead) {
  PrefetchRing ring(dataset_, kSim, plans_, {0, 0}, 4);
  for (int i = 0; i < 4; ++i) {
    const auto ticket = ring.claim();
    ring.fill(*ticket);
    ring.commit(*ticket);
  }
  reset_counters();
  ring.take();
  EXPECT_EQ(counters().uploads_pinned, 3);
  EXPECT_EQ(counters().uploads_pageable, 0);
}

/// The product's trainer with threads, on rows that are streamed.
std::string streamed_hash(const Json& changes) {
  TemporaryFolder folder;
  Json config = tiny_config(folder.path(), "sim:0");
  config.merge_patch(changes);
  RunOptions options;
  options.quiet = true;
  return run(parse_run_config(config, folder.path()), options).at("weights_sha256");
}

TEST_F(SimPrefetch, TrainingIsTheSameFromTheHostAndFromTheDevice) {
  const Json on_device{{"data", {{"residency", "device"}}}};
  const std::string expected = streamed_hash(on_device);
  for (const Json& workers : {Json("auto"), Json(1), Json(3)}) {
    reset_counters();
    EXPECT_EQ(streamed_hash({{"data", {{"residency", "stream"}, {"workers", workers}}}}), expected)
        << workers;
    EXPECT_GT(counters().uploads_pinned, 50 * 3) << "each micro-batch is a copy of its own";
    EXPECT_EQ(reports(), "");
  }
}

}  // namespace
}  // namespace finetune::sim
