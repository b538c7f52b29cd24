#include "finetune/model/projection.h"

#include <ATen/ATen.h>

namespace finetune {

bool is_adapter(const std::string& parameter_name) {
  return parameter_name.ends_with(kAdapterA) || parameter_name.ends_with(kAdapterB);
}

at::Tensor project(const at::Tensor& x, const Projection& projection, const ForwardMode& mode,
                   const at::Tensor& token_keys) {
  at::Tensor y = kernels::linear(x, projection.weight);
  for (const Adapter& adapter : projection.adapters) {
    const at::Tensor dropped = kernels::dropout(x, mode.dropout(adapter.dropout, adapter.site, token_keys));
    const at::Tensor change = kernels::linear(kernels::linear(dropped, adapter.a), adapter.b);  // [N, rows]
    y.narrow(1, adapter.first_row, change.size(1)).add_(change, adapter.scale);
  }
  return y;
}

}  // namespace finetune
