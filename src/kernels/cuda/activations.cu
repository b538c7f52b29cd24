#include "launch.cuh"
#include "norm.cuh"
#include "rows.cuh"

namespace finetune::kernels::cuda {

template void launch(const BiasActivation<float>&);
template void launch(const BiasActivation<Bfloat16>&);
template void launch(const BiasActivation<Float16>&);
template void launch(const BiasActivationBackward<float>&);
template void launch(const BiasActivationBackward<Bfloat16>&);
template void launch(const BiasActivationBackward<Float16>&);
template void launch(const DropoutRows<float>&);
template void launch(const DropoutRows<Bfloat16>&);
template void launch(const DropoutRows<Float16>&);
template void launch(const NormForward<float>&);
template void launch(const NormForward<Bfloat16>&);
template void launch(const NormForward<Float16>&);
template void launch(const NormBackward<float>&);
template void launch(const NormBackward<Bfloat16>&);
template void launch(const NormBackward<Float16>&);

}  // namespace finetune::kernels::cuda
