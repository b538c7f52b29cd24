#include "rows.h"

#include "finetune/kernels/philox.h"

namespace finetune::kernels::cpu {

DropoutDraw make_draw(double probability, int64_t site, const std::optional<at::Tensor>& rng,
                      const std::optional<at::Tensor>& token_keys, int64_t num_tokens, const char* op) {
  TORCH_CHECK(probability >= 0.0 && probability < 1.0, op, ": dropout probability must be in [0, 1), found ",
              probability);
  DropoutDraw draw;
  draw.threshold = dropout_threshold(probability);
  if (draw.threshold == 0) return draw;
  TORCH_CHECK(site >= 0 && site < 1 << 16, op, ": dropout site must be in [0, 65536), found ", site);
  TORCH_CHECK(rng && rng->scalar_type() == at::kLong && rng->numel() == 2, op,
              ": dropout needs rng, two int64 values (seed and step)");
  TORCH_CHECK(token_keys && token_keys->scalar_type() == at::kLong && token_keys->is_contiguous() &&
                  token_keys->numel() == num_tokens,
              op, ": dropout needs token_keys, ", num_tokens, " int64 values");
  const int64_t* words = rng->const_data_ptr<int64_t>();
  draw.seed = static_cast<uint64_t>(words[0]);
  draw.step = words[1];
  draw.site = static_cast<uint32_t>(site);
  draw.scale = dropout_scale(probability);
  return draw;
}

}  // namespace finetune::kernels::cpu
