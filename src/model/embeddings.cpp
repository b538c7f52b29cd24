#include "embeddings.h"

#include <ATen/ATen.h>

#include <utility>

namespace finetune {

Embeddings::Embeddings(EmbeddingSpec spec, ParameterStore& store)
    : spec_(std::move(spec)), precision_(store.precision()) {
  const std::string& p = spec_.prefix;
  const auto add_positions = [&] {
    position_ = store.add(p + "position_embeddings.weight", {spec_.num_positions, spec_.width});
  };
  word_ = store.add(p + spec_.word, {spec_.vocab_size, spec_.width});
  if (spec_.num_positions > 0 && !spec_.positions_last) add_positions();
  if (spec_.num_token_types > 0) {
    type_ = store.add(p + "token_type_embeddings.weight", {spec_.num_token_types, spec_.width});
  }
  if (!spec_.projection.empty()) {
    projection_ = store.add_projection(p + spec_.projection, {spec_.hidden_size, spec_.width});
  }
  norm_weight_ = store.add(p + spec_.norm + ".weight", {spec_.hidden_size});
  norm_bias_ = store.add_bias(p + spec_.norm + ".bias", spec_.hidden_size, spec_.norm_bias);
  if (spec_.num_positions > 0 && spec_.positions_last) add_positions();
  // The operator always adds a position: of a family without them, a row of zeros.
  if (spec_.num_positions == 0) position_ = at::zeros({1, spec_.width}, word_.options());
}

at::Tensor Embeddings::position_ids(const Batch& batch) const {
  if (spec_.num_positions == 0) return at::zeros_like(batch.position_ids);
  if (!spec_.padding_id) return batch.position_ids;
  // A padding token may be typed in the text: transformers counts over all tokens but those.
  const auto counts = batch.input_ids.ne(*spec_.padding_id).to(at::kInt);  // [N]
  const auto before = counts.cumsum(0, at::kInt) - counts;
  const auto row_begins = at::arange(batch.num_tokens, batch.position_ids.options()) - batch.position_ids;
  const auto in_row = before - before.index_select(0, row_begins) + 1;
  return (in_row * counts + *spec_.padding_id).to(at::kInt);
}

at::Tensor Embeddings::token_type_ids(const Batch& batch) const {
  // A second segment has type 1; models with one type know no segments.
  return spec_.num_token_types == 1 ? at::zeros_like(batch.token_type_ids) : batch.token_type_ids;
}

at::Tensor Embeddings::forward(const Batch& batch, const ForwardMode& mode) const {
  auto x =
      kernels::embedding_sum(batch.input_ids, position_ids(batch), token_type_ids(batch), word_, position_,
                             type_);  // [N, width]
  if (!spec_.projection.empty())
    x = project(x.to(precision_), projection_, mode, batch.token_keys).to(at::kFloat);
  x = kernels::layer_norm(x, norm_weight_, norm_bias_, spec_.norm_eps);
  return kernels::dropout(x, mode.dropout(spec_.dropout, 0, batch.token_keys));
}

}  // namespace finetune
