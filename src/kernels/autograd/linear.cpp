#include "../operators.h"
#include "finetune/kernels/ops.h"
#include "parameter_grad.h"

namespace finetune::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Linear : torch::autograd::Function<Linear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& master,
                            const at::Tensor& operand) {
    // A frozen weight needs no input, a first layer's input no weight.
    context->save_for_backward({master.requires_grad() ? x : at::Tensor(), master, operand});
    const at::AutoDispatchBelowADInplaceOrView guard;
    return at::mm(x, operand.t());
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor grad = grads[0].contiguous();
    std::optional<at::Tensor> weight_grad = parameter_grad(saved[1]);
    const at::AutoDispatchBelowADInplaceOrView guard;
    if (weight_grad) operators::add_product(grad, saved[0], *weight_grad);
    return {context->needs_input_grad(0) ? at::mm(grad, saved[2]) : at::Tensor(), at::Tensor(), at::Tensor()};
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

at::Tensor linear(const at::Tensor& x, const Weight& weight) {
  if (!needs_graph(x, weight.master)) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    return at::mm(x, weight.operand(x).t());
  }
  return Linear::apply(x, weight.master, weight.operand(x));
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
