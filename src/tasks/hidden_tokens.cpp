#include "hidden_tokens.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace finetune {
namespace {

/// What a draw is for.
enum class Draw : int64_t { kOrder = 1, kKind, kToken };

/// x >> bits, as of an unsigned number.
at::Tensor shift_right(const at::Tensor& x, int64_t bits) {
  return x.bitwise_right_shift(bits).bitwise_and((int64_t{1} << (64 - bits)) - 1);
}

/// The output function of SplitMix64 (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number
/// generators"): every bit of x [N] int64 reaches every bit of the result.
at::Tensor mixed(at::Tensor x) {
  x = (x + static_cast<int64_t>(0x9E3779B97F4A7C15u));
  x = x.bitwise_xor(shift_right(x, 30)) * static_cast<int64_t>(0xBF58476D1CE4E5B9u);
  x = x.bitwise_xor(shift_right(x, 27)) * static_cast<int64_t>(0x94D049BB133111EBu);
  return x.bitwise_xor(shift_right(x, 31));
}

/// 31 random bits a token: [N] int64.
at::Tensor draws(const at::Tensor& token_keys, const at::Tensor& rng, Draw purpose) {
  const auto seed = mixed(rng.select(0, 0) + (static_cast<int64_t>(purpose) << 40));
  const auto step = mixed(seed.bitwise_xor(rng.select(0, 1)));
  return shift_right(mixed(step.bitwise_xor(mixed(token_keys))), 33);
}

at::Tensor is_special(const at::Tensor& ids, const std::vector<int32_t>& special_ids) {
  at::Tensor special = at::zeros_like(ids, ids.options().dtype(at::kBool));
  for (const int32_t id : special_ids) special = special.logical_or(ids.eq(id));
  return special;
}

int64_t num_hidden(const HidingRule& rule, int64_t length) {
  constexpr int64_t kAround = 2;  // the special tokens around a text
  if (length <= kAround) return 0;
  return std::max<int64_t>(1, std::llround(rule.fraction * static_cast<double>(length - kAround)));
}

}  // namespace

void add_targets(const HidingRule& rule, EncodedDataset& dataset) {
  dataset.text_offsets = {};  // a window is a text of its own: nothing is said of the whole
  dataset.target_offsets = {0};
  dataset.target_positions = {};
  dataset.labels = {};
  for (int64_t row = 0; row < dataset.num_rows(); ++row) {
    const int64_t count = num_hidden(rule, dataset.length(row));
    for (int64_t i = 0; i < count; ++i) {
      dataset.target_positions.push_back(static_cast<int32_t>(i));
      dataset.labels.push_back(0);
    }
    dataset.target_offsets.push_back(static_cast<int64_t>(dataset.target_positions.size()));
  }
}

Batch hide_tokens(Batch batch, const HidingRule& rule, const at::Tensor& rng, int64_t ignore_index) {
  const at::Tensor& ids = batch.input_ids;
  const auto special = is_special(ids, rule.special_ids);  // [N]
  // Within each row the tokens in a random order, special ones last: a row keeps its place, so that a
  // target's number in its row is the place of its token in this order.
  constexpr int64_t kLast = int64_t{1} << 31;
  const auto place =
      at::where(special, at::full_like(batch.token_keys, kLast), draws(batch.token_keys, rng, Draw::kOrder));
  const auto row_ends = batch.cu_seqlens.narrow(0, 1, batch.num_rows);
  const auto rows = at::searchsorted(row_ends, at::arange(batch.num_tokens, row_ends.options()),
                                     /*out_int32=*/false, /*right=*/true);
  const auto order = (rows.bitwise_left_shift(32) + place).argsort(/*stable=*/true, /*dim=*/0);
  const auto positions = order.index_select(0, batch.positions);  // [P]

  const auto chosen = ids.index_select(0, positions);
  const auto keys = batch.token_keys.index_select(0, positions);
  const auto kind = draws(keys, rng, Draw::kKind).to(at::kDouble) / static_cast<double>(kLast);
  const auto random = draws(keys, rng, Draw::kToken).remainder(rule.vocab_size).to(at::kInt);
  const auto shown =
      at::where(kind.lt(0.8), at::full_like(chosen, rule.mask_id), at::where(kind.lt(0.9), random, chosen));
  const auto ignored = batch.labels.eq(ignore_index).logical_or(special.index_select(0, positions));
  // Ignored targets may point to any token, also to one that another target hides: they write behind the end.
  const auto places = at::where(ignored, at::full_like(positions, batch.num_tokens), positions);
  batch.input_ids =
      at::cat({ids, at::zeros({1}, ids.options())}).scatter(0, places, shown).narrow(0, 0, batch.num_tokens);
  batch.labels = at::where(ignored, at::full_like(batch.labels, ignore_index), chosen.to(at::kLong));
  batch.positions = positions;
  return batch;
}

}  // namespace finetune
