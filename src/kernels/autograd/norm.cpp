#include "../operators.h"
#include "finetune/kernels/ops.h"
#include "parameter_grad.h"
#include "saved_dropout.h"

namespace finetune::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct DropoutFunction : torch::autograd::Function<DropoutFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const Dropout& dropout) {
    save_dropout(context, dropout);
    context->save_for_backward({dropout.rng, dropout.token_keys});
    return operators::dropout(x, dropout.probability, dropout.site, dropout.rng, dropout.token_keys);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    return {operators::dropout(grads[0].contiguous(), saved_probability(context), saved_site(context),
                               saved[0], saved[1]),
            at::Tensor()};
  }
};

struct LayerNorm : torch::autograd::Function<LayerNorm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, double eps) {
    auto [output, mean, rstd] = operators::layer_norm(x, weight, bias, eps);
    context->save_for_backward({x, mean, rstd, weight, bias});
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    return {operators::layer_norm_backward(grads[0].contiguous(), saved[0], saved[1], saved[2], saved[3],
                                           parameter_grad(saved[3]), parameter_grad(saved[4])),
            at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

struct DropoutAddLayerNorm : torch::autograd::Function<DropoutAddLayerNorm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& x_bias,
                            const at::Tensor& residual, const at::Tensor& weight, const at::Tensor& bias,
                            double eps, const Dropout& dropout) {
    auto [output, sum, mean, rstd] = operators::dropout_add_layer_norm(
        x, x_bias, residual, weight, bias, eps, dropout.probability, dropout.site,
        optional_tensor(dropout.rng), optional_tensor(dropout.token_keys));
    save_dropout(context, dropout);
    context->save_for_backward({sum, mean, rstd, x_bias, weight, bias, dropout.rng, dropout.token_keys});
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    auto [x_grad, residual_grad] = operators::dropout_add_layer_norm_backward(
        grads[0].contiguous(), saved[0], saved[1], saved[2], saved[4], saved_probability(context),
        saved_site(context), optional_tensor(saved[6]), optional_tensor(saved[7]), parameter_grad(saved[3]),
        parameter_grad(saved[4]), parameter_grad(saved[5]));
    return {x_grad, at::Tensor(), residual_grad, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor dropout(const at::Tensor& x, const Dropout& dropout) {
  if (dropout.probability == 0.0) return x;
  if (!needs_graph(x)) {
    return operators::dropout(x, dropout.probability, dropout.site, dropout.rng, dropout.token_keys);
  }
  return DropoutFunction::apply(x, dropout);
}

at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double eps) {
  if (!needs_graph(x, weight, bias)) return std::get<0>(operators::layer_norm(x, weight, bias, eps));
  return LayerNorm::apply(x, weight, bias, eps);
}

at::Tensor dropout_add_layer_norm(const at::Tensor& x, const at::Tensor& x_bias, const at::Tensor& residual,
                                  const at::Tensor& weight, const at::Tensor& bias, double eps,
                                  const Dropout& dropout) {
  if (!needs_graph(x, x_bias, residual, weight, bias)) {
    return std::get<0>(operators::dropout_add_layer_norm(
        x, x_bias, residual, weight, bias, eps, dropout.probability, dropout.site,
        optional_tensor(dropout.rng), optional_tensor(dropout.token_keys)));
  }
  return DropoutAddLayerNorm::apply(x, x_bias, residual, weight, bias, eps, dropout);
}

}  // namespace finetune::kernels
