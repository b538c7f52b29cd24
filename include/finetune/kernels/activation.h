#pragma once

namespace finetune::kernels {

/// kGelu is the exact one (error function), kGeluTanh its tanh approximation, kQuickGelu x * sigmoid(1.702
/// x).
enum class Activation { kGelu, kGeluTanh, kQuickGelu, kRelu, kSilu, kTanh };

}  // namespace finetune::kernels
