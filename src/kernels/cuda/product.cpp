#include <ATen/ops/mm.h>

#include "kernels.h"

namespace finetune::kernels::cuda {

void add_product(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& weight_grad) {
  at::Tensor sum = weight_grad;
  if (x.scalar_type() == sum.scalar_type()) {
    sum.addmm_(grad.t(), x);
  } else {
    sum.add_(at::mm(grad.t(), x));
  }
}

}  // namespace finetune::kernels::cuda
