/// State restored straight onto the device from a mapped file, and a model split over two devices.

#include <ATen/DeviceAccelerator.h>
#include <ATen/core/grad_mode.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "encoder.h"
#include "support.h"

namespace finetune::sim {
namespace {

/// A temporary file of `count` floats 0, 1, 2, ..., mapped read-only.
class MappedFloats {
 public:
  explicit MappedFloats(int64_t count) : bytes_(static_cast<size_t>(count) * sizeof(float)) {
    std::string name = ::testing::TempDir() + "sim_restore_XXXXXX";
    const int file = mkstemp(name.data());
    unlink(name.c_str());
    const at::Tensor block = at::arange(kMiB, at::kFloat);
    for (int64_t done = 0; done < count; done += kMiB) {
      const auto bytes = static_cast<size_t>(std::min(kMiB, count - done)) * sizeof(float);
      const at::Tensor values = block + static_cast<double>(done);
      if (write(file, values.const_data_ptr(), bytes) != static_cast<ssize_t>(bytes))
        throw std::runtime_error("disk full");
    }
    data_ = static_cast<float*>(mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE, file, 0));
    close(file);
  }
  ~MappedFloats() { munmap(data_, bytes_); }
  MappedFloats(const MappedFloats&) = delete;
  MappedFloats& operator=(const MappedFloats&) = delete;
  const float* at(int64_t index) const { return data_ + index; }

 private:
  size_t bytes_;
  float* data_;
};

/// Copies host memory to existing device tensors through two pinned buffers on a side stream.
class StagingRing {
 public:
  explicit StagingRing(int64_t floats) : stream_(side_stream()) {
    for (auto& buffer : buffers_) buffer = at::empty({floats}, at::TensorOptions().pinned_memory(true));
  }
  void copy(const float* from, const at::Tensor& to) {
    const c10::StreamGuard on(stream_);
    const at::Tensor flat = to.view({-1});
    for (int64_t done = 0; done < flat.numel();) {
      const int64_t count = std::min(buffers_[next_].numel(), flat.numel() - done);
      free_[next_].synchronize();  // the host waits until the buffer is free again
      std::memcpy(buffers_[next_].data_ptr(), from + done, static_cast<size_t>(count) * sizeof(float));
      flat.narrow(0, done, count).copy_(buffers_[next_].narrow(0, 0, count), /*non_blocking=*/true);
      free_[next_].record(stream_);
      next_ = 1 - next_;
      done += count;
    }
  }
  c10::Stream stream() const { return stream_; }

 private:
  c10::Stream stream_;
  std::array<at::Tensor, 2> buffers_;
  std::array<c10::Event, 2> free_{c10::Event(at::kPrivateUse1), c10::Event(at::kPrivateUse1)};
  size_t next_ = 0;
};

using SimRestore = SimTest;

TEST_F(SimRestore, PeaksAtModelAndMoments) {
  EncoderShape shape{.vocabulary = 20000, .width = 512, .inner = 2048, .layers = 4};
  at::accelerator::emptyCache();
  at::accelerator::resetPeakStats(0);
  const int64_t before = memory(0).allocated;
  const at::NoGradGuard no_grad;
  Encoder model(shape, kSim);
  AdamW optimizer(model.parameters());
  int64_t floats = 0;
  for (const auto& parameter : model.parameters()) floats += parameter.numel();
  const MappedFloats file(3 * floats);
  reset_counters();
  StagingRing ring(2 * kMiB);
  ring.stream().wait(recorded(main_stream()));
  int64_t read = 0;
  for (const auto& tensors : {model.parameters(), optimizer.first_moments(), optimizer.second_moments()}) {
    for (const at::Tensor& tensor : tensors) {
      ring.copy(file.at(read), tensor);
      read += tensor.numel();
    }
  }
  main_stream().wait(recorded(ring.stream()));
  const Counters n = counters();
  const int64_t needed = 3 * floats * static_cast<int64_t>(sizeof(float));
  EXPECT_LE(memory(0).peak_allocated - before, needed + kMiB);
  EXPECT_EQ(n.uploads_pageable, 0);
  EXPECT_EQ(n.host_reads, 0);
  EXPECT_EQ(n.upload_bytes, needed);
  EXPECT_EQ(optimizer.second_moments().back()[0].item<float>(),
            static_cast<float>(3 * floats - shape.classes));
  EXPECT_EQ(reports(), "");
}

struct SplitResult {
  at::Tensor loss, first_grad, last_grad;
};

/// The first layer on one device, the second on the other.
SplitResult run_split(at::Device front, at::Device back) {
  const EncoderShape shape;
  Encoder first(shape, front), second(shape, back);  // each holds all layers here, and uses one of them
  first.init(7);
  second.init(7);
  at::Generator data = at::detail::createCPUGenerator(3);
  const at::Tensor ids = at::randint(shape.vocabulary, {8, 12}, data, at::kLong).to(front);
  const at::Tensor labels = at::randint(shape.classes, {8}, data, at::kLong).to(back);
  const StrictSection strict(StrictSection::kWaits);
  const at::Tensor hidden = first.layer(0, first.embed(ids)).to(back);
  const at::Tensor loss = at::cross_entropy_loss(second.classify(second.layer(1, hidden)), labels);
  loss.backward();
  const AllowHostReads log_point;
  return {loss.detach().cpu(), first.get("words").grad().cpu(), second.get("head").grad().cpu()};
}

TEST_F(SimRestore, APipelineOverTwoDevicesEqualsTheCpu) {
  const SplitResult host = run_split(at::kCPU, at::kCPU);
  reset_counters();
  const SplitResult device = run_split(kSim, kSim1);
  EXPECT_EQ(counters().peer_copies, 2);  // forward and backward
  EXPECT_TRUE(host.loss.equal(device.loss));
  EXPECT_TRUE(host.first_grad.equal(device.first_grad));
  EXPECT_TRUE(host.last_grad.equal(device.last_grad));
  EXPECT_EQ(reports(), "");
}

}  // namespace
}  // namespace finetune::sim
