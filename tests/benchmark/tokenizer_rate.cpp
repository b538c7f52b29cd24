// Rate of the tokenizer on one thread. Usage: tokenizer_rate MODEL TEXTS [REPETITIONS] (a line a text).
// Prints
// {"megabytes_per_second": best of several}.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "finetune/core/clock.h"
#include "finetune/core/file.h"
#include "finetune/tokenizer/tokenizer.h"

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) return 2;
  const int num_repetitions = argc == 4 ? std::atoi(argv[3]) : 5;
  const auto tokenizer = finetune::load_tokenizer(argv[1]);
  const finetune::MappedFile file(argv[2]);
  std::vector<std::string_view> texts;
  for (std::string_view rest = file.text(); !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    texts.push_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  const finetune::EncodeOptions options{.max_length = 0, .truncation = finetune::TruncationStrategy::kNone};
  std::vector<int32_t> ids;
  double best = 1e30;
  for (int repetition = 0; repetition < num_repetitions; ++repetition) {
    ids.clear();
    const double began = finetune::monotonic_seconds();
    const auto encoder = tokenizer->row_encoder();
    for (const auto text : texts) encoder->append(text, std::nullopt, options, ids);
    best = std::min(best, finetune::monotonic_seconds() - began);
  }
  std::printf("{\"megabytes_per_second\": %.3f}\n", static_cast<double>(file.size()) / best / 1e6);
}
