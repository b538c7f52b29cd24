/// A restore goes straight onto the device: one copy of model, gradients and moments there, none on the host.

#include <ATen/DeviceAccelerator.h>

#include "../device/support.h"
#include "finetune/checkpoint/safetensors.h"
#include "finetune/checkpoint/store.h"
#include "finetune/model/classifier.h"
#include "finetune/optim/optimizer.h"
#include "tiny_run.h"
#include "train/named_tensors.h"

namespace finetune::sim {
namespace {

constexpr int64_t kAllowance = 64 * kMiB;

/// About 110 MiB of weights: a second copy of them cannot hide in the allowance.
const EncoderConfig kLargeEncoder{.model_type = "bert",
                                  .vocab_size = 30522,
                                  .hidden_size = 512,
                                  .num_layers = 4,
                                  .num_heads = 8,
                                  .intermediate_size = 2048,
                                  .max_positions = 512,
                                  .num_token_types = 2};
const std::vector<float> kRates(1000, 1e-3f);

/// A model with its optimizer, and both as a checkpoint names them.
struct Parts {
  Classifier model;
  Optimizer optimizer;

  explicit Parts(c10::Device device)
      : model(kLargeEncoder, HeadConfig{}, device),
        optimizer(model.parameters(), OptimizerConfig{}, kRates) {}

  NamedTensors weights() const { return named_tensors(model.parameters()); }
  NamedTensors moments() const {
    NamedTensors tensors;
    for (const auto& [name, tensor] : optimizer.state()) tensors.push_back({name, tensor});
    return tensors;
  }
};

int64_t bytes_of(const NamedTensors& tensors) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

/// Most memory in use at one time, above what there was before.
struct Peaks {
  int64_t device, host;
};

class SimRestoreProduct : public SimTest {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    Parts parts(kSim);
    parts.model.initialize_parameters(1);
    Snapshot snapshot{
        .step = 1, .model = parts.weights(), .optimizer = parts.moments(), .state = Json::object()};
    CheckpointStore(folder_->path(), {}).save(snapshot, /*is_best=*/false);
  }
  static void TearDownTestSuite() { delete folder_; }

  /// Creates model and optimizer and lets `restore` fill them from the checkpoint.
  static Peaks peaks(const std::function<void(const VerifiedCheckpoint&, Parts&)>& restore) {
    const VerifiedCheckpoint checkpoint = verify_checkpoint(folder_->path() / "step-00000001");
    at::accelerator::emptyCache();
    at::accelerator::resetPeakStats(0);
    reset_host_peak();
    const int64_t device = memory(0).allocated, host = host_memory().allocated;
    Parts parts(kSim);
    restore(checkpoint, parts);
    weights_ = bytes_of(parts.weights());
    moments_ = bytes_of(parts.moments());
    const Peaks used{memory(0).peak_allocated - device, host_memory().peak_allocated - host};
    first_weight_ = parts.weights().front().tensor.cpu();
    return used;
  }
  static int64_t allowed() {
    return 2 * weights_ + moments_ + kAllowance;
  }  // the gradients are as large as the model

  static TemporaryFolder* folder_;
  static int64_t weights_, moments_;
  static at::Tensor first_weight_;
};

TemporaryFolder* SimRestoreProduct::folder_ = nullptr;
int64_t SimRestoreProduct::weights_ = 0;
int64_t SimRestoreProduct::moments_ = 0;
at::Tensor SimRestoreProduct::first_weight_;

TEST_F(SimRestoreProduct, HoldsOneCopyOnTheDeviceAndNoneOnTheHost) {
  const Peaks used = peaks([](const VerifiedCheckpoint& checkpoint, Parts& parts) {
    reset_counters();
    restore_tensors(checkpoint, parts.weights(), parts.moments());
    EXPECT_EQ(counters().upload_bytes, bytes_of(parts.weights()) + bytes_of(parts.moments()));
    EXPECT_EQ(counters().host_reads, 0);
  });
  EXPECT_GT(weights_, kAllowance) << "the model is too small to tell a second copy";
  EXPECT_LE(used.device, allowed());
  EXPECT_LT(used.host, kAllowance / 4);
  const SafetensorsFile file(folder_->path() / "step-00000001" / "model.safetensors");
  at::Tensor expected = at::empty_like(first_weight_);
  file.read_into(*file.find("bert.embeddings.word_embeddings.weight"), expected);
  EXPECT_TRUE(first_weight_.equal(expected));
  EXPECT_EQ(reports(), "");
}

TEST_F(SimRestoreProduct, ASecondCopyOnTheDeviceIsSeen) {
  const Peaks used = peaks([](const VerifiedCheckpoint& checkpoint, Parts& parts) {
    NamedTensors second = parts.weights();
    for (auto& [name, tensor] : second) tensor = at::empty_like(tensor);
    restore_tensors(checkpoint, second, parts.moments());
    const auto weights = parts.weights();
    for (size_t i = 0; i < weights.size(); ++i) at::Tensor(weights[i].tensor).copy_(second[i].tensor);
  });
  EXPECT_GT(used.device, allowed());
}

TEST_F(SimRestoreProduct, ACopyOnTheHostIsSeen) {
  const Peaks used = peaks([](const VerifiedCheckpoint& checkpoint, Parts& parts) {
    NamedTensors second = parts.weights();
    for (auto& [name, tensor] : second) tensor = at::empty_like(tensor, at::kCPU);
    restore_tensors(checkpoint, second, parts.moments());
    const auto weights = parts.weights();
    for (size_t i = 0; i < weights.size(); ++i) at::Tensor(weights[i].tensor).copy_(second[i].tensor);
  });
  EXPECT_LE(used.device, allowed());
  EXPECT_GT(used.host, weights_ * 9 / 10);
}

TEST_F(SimRestoreProduct, ABudgetOfOneCopyIsEnough) {
  peaks([](const VerifiedCheckpoint&, Parts&) {});
  at::accelerator::emptyCache();
  set_budget(0, memory(0).reserved + allowed());
  peaks([](const VerifiedCheckpoint& checkpoint, Parts& parts) {
    restore_tensors(checkpoint, parts.weights(), parts.moments());
    EXPECT_THROW(at::zeros({weights_ / 4}, kOnSim), c10::OutOfMemoryError)
        << "the budget has room for a second copy";
  });
}

}  // namespace
}  // namespace finetune::sim
