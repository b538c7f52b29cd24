#include "attention.cuh"
#include "launch.cuh"

namespace finetune::kernels::cuda {

template void launch(const AttentionForward<float>&);
template void launch(const AttentionForward<Bfloat16>&);
template void launch(const AttentionForward<Float16>&);
template void launch(const AttentionBackward<float>&);
template void launch(const AttentionBackward<Bfloat16>&);
template void launch(const AttentionBackward<Float16>&);

}  // namespace finetune::kernels::cuda
