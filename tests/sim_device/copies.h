#pragma once

#include <torch/library.h>

namespace finetune::sim {

/// Registers the operators that are not CPU kernels in disguise: creation, copies, record_stream.
void register_copies(torch::Library& aten);

}  // namespace finetune::sim
