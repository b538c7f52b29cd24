#include "adam.cuh"
#include "embedding.cuh"
#include "gather_batch.cuh"
#include "launch.cuh"
#include "rows.cuh"

namespace finetune::kernels::cuda {

template void launch(const GatherBatch&);
template void launch(const EmbeddingSum&);
template void launch(const EmbeddingRuns&);
template void launch(const EmbeddingLongRuns&);
template void launch(const AddPartialSums&);
template void launch(const AdamPrepare&);
template void launch(const AdamUpdate&);

}  // namespace finetune::kernels::cuda
