#include "recompute.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

namespace finetune {
namespace {

using Body = std::function<at::Tensor(const at::Tensor&)>;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct SavedBody : torch::CustomClassHolder {
  explicit SavedBody(Body function) : body(std::move(function)) {}
  Body body;
};

struct Recomputed : torch::autograd::Function<Recomputed> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const c10::intrusive_ptr<SavedBody>& saved) {
    context->save_for_backward({x});
    context->saved_data["body"] = c10::IValue::make_capsule(saved);
    return saved->body(x);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto capsule = context->saved_data["body"].toCapsule();
    const Body& body = static_cast<const SavedBody&>(*capsule).body;
    const at::AutoGradMode with_grad(true);
    const at::Tensor x = context->get_saved_variables()[0].detach().requires_grad_();
    body(x).backward(grads[0]);
    return {x.grad(), at::Tensor()};
  }
};

}  // namespace

at::Tensor recomputed(Body body, const at::Tensor& x) {
  if (!x.requires_grad() || !at::GradMode::is_enabled()) return body(x);
  return Recomputed::apply(x, c10::make_intrusive<SavedBody>(std::move(body)));
}

}  // namespace finetune
