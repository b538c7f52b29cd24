#pragma once

// Every kernel that is launched, by the file that it is compiled in: X(Kernel). `launch` is instantiated from
// these lists for the GPU, and in the tests for the emulation.

#define FINETUNE_ROW_KERNELS(X) \
  X(GatherBatch)                \
  X(EmbeddingSum)               \
  X(EmbeddingRuns)              \
  X(EmbeddingLongRuns)          \
  X(AddPartialSums)             \
  X(AdamPrepare)                \
  X(AdamUpdate)

#define FINETUNE_FOR_ACTIVATION_TYPES(X, Kernel) X(Kernel<float>) X(Kernel<Bfloat16>) X(Kernel<Float16>)

#define FINETUNE_ACTIVATION_KERNELS(X)                     \
  FINETUNE_FOR_ACTIVATION_TYPES(X, BiasActivation)         \
  FINETUNE_FOR_ACTIVATION_TYPES(X, BiasActivationBackward) \
  FINETUNE_FOR_ACTIVATION_TYPES(X, DropoutRows)            \
  FINETUNE_FOR_ACTIVATION_TYPES(X, NormForward)            \
  FINETUNE_FOR_ACTIVATION_TYPES(X, NormBackward)

#define FINETUNE_ATTENTION_KERNELS(X)                \
  FINETUNE_FOR_ACTIVATION_TYPES(X, AttentionForward) \
  FINETUNE_FOR_ACTIVATION_TYPES(X, AttentionBackward)

#define FINETUNE_INSTANTIATE_LAUNCH(...) template void launch(const __VA_ARGS__&);
