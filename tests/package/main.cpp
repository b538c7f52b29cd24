// Uses the installed headers and library: a layer that knows no torch, and an operator that LibTorch's
// dispatcher must find.
#include <ATen/ATen.h>
#include <finetune/config/load.h>
#include <finetune/core/error.h>
#include <finetune/core/version.h>
#include <finetune/kernels/ops.h>

#include <iostream>

int main() {
  try {
    finetune::load_run_config("no-such-file.json", {});
    std::cerr << "a missing config file was accepted\n";
    return 1;
  } catch (const finetune::Error& error) {
    std::cout << "refused: " << error.what() << "\n";
  }
  const at::Tensor arena = at::arange(10, 15, at::kInt);
  const auto [input_ids, token_type_ids, position_ids, token_keys] =
      finetune::kernels::gather_batch(arena, at::tensor({0, 2, 5}, at::kLong), at::tensor({2, 1}, at::kInt),
                                      at::tensor({1, 0}, at::kLong), at::tensor({0, 3, 5}, at::kInt), 5, 0);
  if (!at::equal(input_ids, at::tensor({12, 13, 14, 10, 11}, at::kInt))) {
    std::cerr << "gather_batch gave " << input_ids << "\n";
    return 1;
  }
  std::cout << "finetune " << FINETUNE_VERSION << " embedded\n";
  return 0;
}
