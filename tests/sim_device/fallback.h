#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace finetune::sim {

/// Boxed kernel that runs an operator's CPU kernel on device memory in place. It is already the kernel or the
/// fallback of every operator; register it by hand where an operator has composite kernels only.
void run_on_device(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace finetune::sim
