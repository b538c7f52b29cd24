#pragma once

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "finetune/checkpoint/store.h"
#include "finetune/core/error.h"
#include "finetune/core/file.h"
#include "finetune/core/log.h"

namespace finetune::testing {

namespace fs = std::filesystem;

/// A test with an empty folder of its own, removed afterwards.
class FolderTest : public ::testing::Test {
 protected:
  FolderTest() {
    // In memory where there is such a place: these tests make thousands of fsyncs.
    const fs::path memory = "/dev/shm";
    const fs::path parent = ::access(memory.c_str(), W_OK) == 0 ? memory : fs::temp_directory_path();
    std::string pattern = (parent / "finetune-checkpoint-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~FolderTest() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  fs::path folder_;
};

/// Collects what is logged while it lives.
class CapturedLog {
 public:
  CapturedLog() : previous_(spdlog::default_logger()) {
    auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(stream_);
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("captured", std::move(sink)));
  }
  ~CapturedLog() { spdlog::set_default_logger(previous_); }
  std::string text() const { return stream_.str(); }

 private:
  std::ostringstream stream_;
  std::shared_ptr<spdlog::logger> previous_;
};

inline void write_bytes(const fs::path& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
}

/// A safetensors file: the length of `header`, the header, the data.
inline std::string safetensors_bytes(const std::string& header, const std::string& data) {
  std::string bytes;
  for (size_t i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(header.size() >> (8 * i) & 0xFF));
  return bytes + header + data;
}

/// The message of the `CheckpointError` that `action` throws; empty, and a failure, where it throws none.
template <typename Action>
std::string checkpoint_error(const Action& action) {
  try {
    action();
  } catch (const CheckpointError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kCheckpoint);
    return error.what();
  }
  ADD_FAILURE() << "no CheckpointError was thrown";
  return "";
}

inline at::Tensor numbers(at::IntArrayRef sizes, double first, at::ScalarType dtype = at::kFloat) {
  int64_t numel = 1;
  for (const int64_t size : sizes) numel *= size;
  return (at::arange(numel, at::kDouble).mul_(0.5).add_(first)).to(dtype).view(sizes);
}

/// A run's state whose every tensor depends on `step`.
inline Snapshot example_snapshot(int64_t step) {
  const auto value = static_cast<double>(step);
  Snapshot snapshot;
  snapshot.step = step;
  snapshot.model = {{"bert.embeddings.word_embeddings.weight", numbers({7, 5}, value)},
                    {"classifier.bias", numbers({3}, -value)}};
  snapshot.optimizer = {{"exp_avg/classifier.bias", numbers({3}, value + 0.25)},
                        {"step/classifier.bias", at::scalar_tensor(value)},
                        {"applied", at::full({}, step, at::kLong)}};
  snapshot.state = {{"epoch", step / 10}, {"best_metric", 0.5 + value}};
  return snapshot;
}

/// Tensors of the same names and shapes, all zero.
inline NamedTensors zeros_like(const NamedTensors& tensors) {
  NamedTensors zeros;
  for (const auto& [name, tensor] : tensors) zeros.push_back({name, at::zeros_like(tensor)});
  return zeros;
}

/// Whether the checkpoint gives back exactly `example_snapshot` of its step.
inline void expect_restores(const VerifiedCheckpoint& checkpoint) {
  const Snapshot expected = example_snapshot(checkpoint.step);
  const NamedTensors model = zeros_like(expected.model), optimizer = zeros_like(expected.optimizer);
  restore_tensors(checkpoint, model, optimizer);
  for (size_t i = 0; i < model.size(); ++i) EXPECT_TRUE(model[i].tensor.equal(expected.model[i].tensor));
  for (size_t i = 0; i < optimizer.size(); ++i) {
    EXPECT_TRUE(optimizer[i].tensor.equal(expected.optimizer[i].tensor));
  }
  EXPECT_EQ(checkpoint.state, expected.state);
}

/// Names in a folder that are neither checkpoints nor the two links.
inline std::vector<std::string> strange_names(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& item : fs::directory_iterator(directory)) {
    const std::string name = item.path().filename().string();
    if (!(name.starts_with("step-") && name.size() == 13) && name != "latest" && name != "best")
      names.push_back(name);
  }
  return names;
}

}  // namespace finetune::testing
