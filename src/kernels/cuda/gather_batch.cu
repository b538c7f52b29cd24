#include "gather_batch.cuh"
#include "launch.h"

namespace finetune::kernels::cuda {
namespace {

__global__ void gather_batch_kernel(GatherBatchArguments args) {
  gather_batch_thread(args, blockIdx.x, blockDim.x, threadIdx.x);
}

}  // namespace

cudaError_t launch_gather_batch(const GatherBatchArguments& args, cudaStream_t stream) {
  if (args.num_tokens == 0) return cudaSuccess;
  const auto num_blocks = static_cast<unsigned>(gather_batch_num_blocks(args.num_tokens));
  gather_batch_kernel<<<num_blocks, kGatherBatchBlockSize, 0, stream>>>(args);
  return cudaGetLastError();
}

}  // namespace finetune::kernels::cuda
