#include "../operators.h"
#include "finetune/kernels/ops.h"
#include "parameter_grad.h"

namespace finetune::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Linear : torch::autograd::Function<Linear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight) {
    // A frozen weight needs no input, a first layer's input no weight.
    context->save_for_backward({weight.requires_grad() ? x : at::Tensor(), weight});
    const at::AutoDispatchBelowADInplaceOrView guard;
    return at::mm(x, weight.t());
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::Tensor& weight = saved[1];
    const at::Tensor grad = grads[0].contiguous();
    std::optional<at::Tensor> weight_grad = parameter_grad(weight);
    const at::AutoDispatchBelowADInplaceOrView guard;
    if (weight_grad) weight_grad->addmm_(grad.t(), x);
    return {context->needs_input_grad(0) ? at::mm(grad, weight) : at::Tensor(), at::Tensor()};
  }
};

struct AddBias : torch::autograd::Function<AddBias> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& bias) {
    context->save_for_backward({bias});
    return operators::add_bias(x, bias);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    if (const auto bias_grad = parameter_grad(context->get_saved_variables()[0])) {
      operators::add_bias_backward(grads[0].contiguous(), *bias_grad);
    }
    return {grads[0], at::Tensor()};
  }
};

struct BiasActivation : torch::autograd::Function<BiasActivation> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& bias,
                            int64_t activation) {
    context->save_for_backward({x, bias});
    context->saved_data["activation"] = activation;
    return operators::bias_activation(x, bias, activation);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    return {operators::bias_activation_backward(grads[0].contiguous(), saved[0], saved[1],
                                                context->saved_data["activation"].toInt(),
                                                parameter_grad(saved[1])),
            at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight) {
  if (!needs_graph(x, weight)) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    return at::mm(x, weight.t());
  }
  return Linear::apply(x, weight);
}

at::Tensor add_bias(const at::Tensor& x, const at::Tensor& bias) {
  if (!needs_graph(x, bias)) return operators::add_bias(x, bias);
  return AddBias::apply(x, bias);
}

at::Tensor bias_activation(const at::Tensor& x, const at::Tensor& bias, Activation activation) {
  const auto number = static_cast<int64_t>(activation);
  if (!needs_graph(x, bias)) return operators::bias_activation(x, bias, number);
  return BiasActivation::apply(x, bias, number);
}

}  // namespace finetune::kernels
