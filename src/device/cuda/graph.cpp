#include "graph.h"

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <exception>
#include <map>

namespace finetune {
namespace {

/// One pool a device: recordings never run at the same time, and none leaves anything in it.
at::cuda::MempoolId_t shared_pool(c10::DeviceIndex device) {
  static std::map<c10::DeviceIndex, at::cuda::MempoolId_t> pools;
  const auto [pool, is_new] = pools.try_emplace(device);
  if (is_new) pool->second = at::cuda::graph_pool_handle();
  return pool->second;
}

class CudaGraph final : public RecordedWork {
 public:
  CudaGraph(c10::Device device, const std::function<void()>& work) : device_(device) {
    const c10::cuda::CUDAGuard guard(device);
    const c10::cuda::CUDAStreamGuard side_stream(  // the default stream cannot be recorded
        c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index()));
    // Threads that feed the next batches may allocate pinned memory and ask for events meanwhile.
    graph_.capture_begin(shared_pool(device.index()), cudaStreamCaptureModeThreadLocal);
    try {
      work();
    } catch (...) {
      const std::exception_ptr cause = std::current_exception();
      try {
        graph_.capture_end();
      } catch (const c10::Error&) {  // follows from the first
      }
      graph_.reset();
      std::rethrow_exception(cause);
    }
    graph_.capture_end();
  }

  void replay() override {
    const c10::cuda::CUDAGuard guard(device_);
    graph_.replay();
  }

 private:
  c10::Device device_;
  at::cuda::CUDAGraph graph_;
};

}  // namespace

std::unique_ptr<RecordedWork> record_cuda_graph(c10::Device device, const std::function<void()>& work) {
  return std::make_unique<CudaGraph>(device, work);
}

}  // namespace finetune
