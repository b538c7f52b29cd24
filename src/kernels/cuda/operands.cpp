#include "operands.h"

#include "launch.h"

namespace finetune::kernels::cuda {

DropoutSite dropout_site(double probability, int64_t site, const std::optional<at::Tensor>& rng,
                         const std::optional<at::Tensor>& token_keys, int64_t num_tokens, const char* op) {
  DropoutSite result;
  result.threshold = dropout_threshold(probability);
  if (!result.active()) return result;
  TORCH_CHECK(rng && token_keys, op, ": dropout needs rng and token_keys");
  TORCH_CHECK(site >= 0 && site < 1 << 16, op, ": site must be below 65536, found ", site);
  result.rng = span<const int64_t>(*rng, 2, op, "rng");
  result.token_keys = span<const int64_t>(*token_keys, num_tokens, op, "token_keys");
  result.site = static_cast<uint32_t>(site);
  result.scale = dropout_scale(probability);
  return result;
}

RowSums::RowSums(int64_t rows, int64_t cols, std::initializer_list<std::optional<at::Tensor>> targets,
                 c10::Device device, const char* op)
    : chunk_rows_(rows_per_chunk(rows)) {
  kernel_.num_chunks = blocks_for(rows, chunk_rows_);
  kernel_.cols = cols;
  bool any = false;
  for (const std::optional<at::Tensor>& target : targets) {
    kernel_.targets[kernel_.num_sums++] = optional_span<float>(target, cols, op, "a parameter's gradient");
    any = any || target.has_value();
  }
  if (!any) return;
  memory_ =
      at::empty({kernel_.num_chunks, kernel_.num_sums, cols}, at::TensorOptions(at::kFloat).device(device));
  kernel_.partial_sums = span<const float>(memory_, op, "partial sums");
}

Span<float> RowSums::partial_sums() const {
  if (!memory_.defined()) return {};
  return {memory_.mutable_data_ptr<float>(), memory_.numel()};
}

void RowSums::add() const {
  if (memory_.defined()) launch(kernel_);
}

}  // namespace finetune::kernels::cuda
