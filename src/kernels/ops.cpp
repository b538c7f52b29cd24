#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "cpu/kernels.h"
#include "operators.h"

namespace finetune::kernels {

// Everything written in place carries an alias annotation: a backend that copies its operands (the simulated
// accelerator, a boxed fallback) knows from it what to copy back.
TORCH_LIBRARY(finetune, m) {
  m.def(
      "gather_batch(Tensor arena, Tensor row_offsets, Tensor second_segments, Tensor rows, Tensor "
      "cu_seqlens, "
      "int num_tokens, int first_row) -> (Tensor, Tensor, Tensor, Tensor)");
  m.def(
      "embedding_sum(Tensor input_ids, Tensor position_ids, Tensor token_type_ids, Tensor word, Tensor "
      "position, "
      "Tensor? type) -> Tensor");
  m.def(
      "embedding_sum_backward(Tensor grad, Tensor input_ids, Tensor position_ids, Tensor token_type_ids, "
      "Tensor(a!)? word_grad, Tensor(b!)? position_grad, Tensor(c!)? type_grad) -> ()");
  m.def("add_product(Tensor grad, Tensor x, Tensor(a!) weight_grad) -> ()");
  m.def("add_bias(Tensor x, Tensor bias) -> Tensor");
  m.def("add_bias_backward(Tensor grad, Tensor(a!) bias_grad) -> ()");
  m.def("bias_activation(Tensor x, Tensor bias, int activation) -> Tensor");
  m.def(
      "bias_activation_backward(Tensor grad, Tensor x, Tensor bias, int activation, Tensor(a!)? bias_grad) "
      "-> Tensor");
  m.def("dropout(Tensor x, float probability, int site, Tensor rng, Tensor token_keys) -> Tensor");
  m.def("layer_norm(Tensor x, Tensor weight, Tensor bias, float eps) -> (Tensor, Tensor, Tensor)");
  m.def(
      "layer_norm_backward(Tensor grad, Tensor x, Tensor mean, Tensor rstd, Tensor weight, Tensor(a!)? "
      "weight_grad, "
      "Tensor(b!)? bias_grad) -> Tensor");
  m.def(
      "dropout_add_layer_norm(Tensor x, Tensor x_bias, Tensor residual, Tensor weight, Tensor bias, float "
      "eps, "
      "float probability, int site, Tensor? rng, Tensor? token_keys) -> (Tensor, Tensor, Tensor, Tensor)");
  m.def(
      "dropout_add_layer_norm_backward(Tensor grad, Tensor sum, Tensor mean, Tensor rstd, Tensor weight, "
      "float probability, int site, Tensor? rng, Tensor? token_keys, Tensor(a!)? x_bias_grad, "
      "Tensor(b!)? weight_grad, Tensor(c!)? bias_grad) -> (Tensor, Tensor)");
  m.def(
      "packed_attention(Tensor qkv, Tensor qkv_bias, Tensor cu_seqlens, int max_length, int num_heads, float "
      "scale, "
      "float probability, int site, Tensor? rng, Tensor? token_keys) -> (Tensor, Tensor)");
  m.def(
      "packed_attention_backward(Tensor grad, Tensor output, Tensor log_sum_exp, Tensor qkv, Tensor "
      "qkv_bias, "
      "Tensor cu_seqlens, int max_length, int num_heads, float scale, float probability, int site, Tensor? "
      "rng, "
      "Tensor? token_keys, Tensor(a!)? qkv_bias_grad) -> Tensor");
  m.def(
      "adam_step(Tensor(a!)[] params, Tensor(b!)[] grads, Tensor(c!)[] exp_avgs, Tensor(d!)[] exp_avg_sqs, "
      "Tensor(f!)[] copies, Tensor(e!) steps, float[] weight_decays, Tensor learning_rate, Tensor "
      "grad_scale, Tensor skip, float "
      "beta1, "
      "float beta2, float eps, bool decoupled) -> ()");
}

// Registered here, in the file that every operator's caller needs, and by a call: a linker drops the objects
// of a static library that nothing refers to, static initialisers and all.
TORCH_LIBRARY_IMPL(finetune, CPU, m) { cpu::register_kernels(m); }

namespace operators {
namespace {

template <typename Signature>
c10::TypedOperatorHandle<Signature> find(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

}  // namespace

#define FINETUNE_CALL(name, ...)                                       \
  static const auto handle = find<decltype(name)>("finetune::" #name); \
  const at::AutoDispatchBelowADInplaceOrView guard;                    \
  return handle.call(__VA_ARGS__)

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> gather_batch(
    const at::Tensor& arena, const at::Tensor& row_offsets, const at::Tensor& second_segments,
    const at::Tensor& rows, const at::Tensor& cu_seqlens, int64_t num_tokens, int64_t first_row) {
  FINETUNE_CALL(gather_batch, arena, row_offsets, second_segments, rows, cu_seqlens, num_tokens, first_row);
}

at::Tensor embedding_sum(const at::Tensor& input_ids, const at::Tensor& position_ids,
                         const at::Tensor& token_type_ids, const at::Tensor& word, const at::Tensor& position,
                         const OptionalTensor& type) {
  FINETUNE_CALL(embedding_sum, input_ids, position_ids, token_type_ids, word, position, type);
}

void embedding_sum_backward(const at::Tensor& grad, const at::Tensor& input_ids,
                            const at::Tensor& position_ids, const at::Tensor& token_type_ids,
                            const OptionalTensor& word_grad, const OptionalTensor& position_grad,
                            const OptionalTensor& type_grad) {
  FINETUNE_CALL(embedding_sum_backward, grad, input_ids, position_ids, token_type_ids, word_grad,
                position_grad, type_grad);
}

void add_product(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& weight_grad) {
  FINETUNE_CALL(add_product, grad, x, weight_grad);
}

at::Tensor add_bias(const at::Tensor& x, const at::Tensor& bias) { FINETUNE_CALL(add_bias, x, bias); }

void add_bias_backward(const at::Tensor& grad, const at::Tensor& bias_grad) {
  FINETUNE_CALL(add_bias_backward, grad, bias_grad);
}

at::Tensor bias_activation(const at::Tensor& x, const at::Tensor& bias, int64_t activation) {
  FINETUNE_CALL(bias_activation, x, bias, activation);
}

at::Tensor bias_activation_backward(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& bias,
                                    int64_t activation, const OptionalTensor& bias_grad) {
  FINETUNE_CALL(bias_activation_backward, grad, x, bias, activation, bias_grad);
}

at::Tensor dropout(const at::Tensor& x, double probability, int64_t site, const at::Tensor& rng,
                   const at::Tensor& token_keys) {
  FINETUNE_CALL(dropout, x, probability, site, rng, token_keys);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm(const at::Tensor& x, const at::Tensor& weight,
                                                          const at::Tensor& bias, double eps) {
  FINETUNE_CALL(layer_norm, x, weight, bias, eps);
}

at::Tensor layer_norm_backward(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& mean,
                               const at::Tensor& rstd, const at::Tensor& weight,
                               const OptionalTensor& weight_grad, const OptionalTensor& bias_grad) {
  FINETUNE_CALL(layer_norm_backward, grad, x, mean, rstd, weight, weight_grad, bias_grad);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> dropout_add_layer_norm(
    const at::Tensor& x, const at::Tensor& x_bias, const at::Tensor& residual, const at::Tensor& weight,
    const at::Tensor& bias, double eps, double probability, int64_t site, const OptionalTensor& rng,
    const OptionalTensor& token_keys) {
  FINETUNE_CALL(dropout_add_layer_norm, x, x_bias, residual, weight, bias, eps, probability, site, rng,
                token_keys);
}

std::tuple<at::Tensor, at::Tensor> dropout_add_layer_norm_backward(
    const at::Tensor& grad, const at::Tensor& sum, const at::Tensor& mean, const at::Tensor& rstd,
    const at::Tensor& weight, double probability, int64_t site, const OptionalTensor& rng,
    const OptionalTensor& token_keys, const OptionalTensor& x_bias_grad, const OptionalTensor& weight_grad,
    const OptionalTensor& bias_grad) {
  FINETUNE_CALL(dropout_add_layer_norm_backward, grad, sum, mean, rstd, weight, probability, site, rng,
                token_keys, x_bias_grad, weight_grad, bias_grad);
}

std::tuple<at::Tensor, at::Tensor> packed_attention(const at::Tensor& qkv, const at::Tensor& qkv_bias,
                                                    const at::Tensor& cu_seqlens, int64_t max_length,
                                                    int64_t num_heads, double scale, double probability,
                                                    int64_t site, const OptionalTensor& rng,
                                                    const OptionalTensor& token_keys) {
  FINETUNE_CALL(packed_attention, qkv, qkv_bias, cu_seqlens, max_length, num_heads, scale, probability, site,
                rng, token_keys);
}

at::Tensor packed_attention_backward(const at::Tensor& grad, const at::Tensor& output,
                                     const at::Tensor& log_sum_exp, const at::Tensor& qkv,
                                     const at::Tensor& qkv_bias, const at::Tensor& cu_seqlens,
                                     int64_t max_length, int64_t num_heads, double scale, double probability,
                                     int64_t site, const OptionalTensor& rng,
                                     const OptionalTensor& token_keys, const OptionalTensor& qkv_bias_grad) {
  FINETUNE_CALL(packed_attention_backward, grad, output, log_sum_exp, qkv, qkv_bias, cu_seqlens, max_length,
                num_heads, scale, probability, site, rng, token_keys, qkv_bias_grad);
}

void adam_step(at::TensorList params, at::TensorList grads, at::TensorList exp_avgs,
               at::TensorList exp_avg_sqs, at::TensorList copies, const at::Tensor& steps,
               at::ArrayRef<double> weight_decays, const at::Tensor& learning_rate,
               const at::Tensor& grad_scale, const at::Tensor& skip, double beta1, double beta2, double eps,
               bool decoupled) {
  const size_t num_params = params.size();
  TORCH_CHECK(
      grads.size() == num_params && exp_avgs.size() == num_params && exp_avg_sqs.size() == num_params &&
          weight_decays.size() == num_params && (copies.empty() || copies.size() == num_params),
      "adam_step: ", num_params, " parameters, but ", grads.size(), " gradients, ", exp_avgs.size(), " and ",
      exp_avg_sqs.size(), " moments, ", copies.size(), " copies, ", weight_decays.size(), " weight decays");
  FINETUNE_CALL(adam_step, params, grads, exp_avgs, exp_avg_sqs, copies, steps, weight_decays, learning_rate,
                grad_scale, skip, beta1, beta2, eps, decoupled);
}

#undef FINETUNE_CALL

}  // namespace operators
}  // namespace finetune::kernels
