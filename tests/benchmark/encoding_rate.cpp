// How quickly rows become tokens, how quickly they are found again in the cache, and in how much memory.
// Usage: encoding_rate MODEL FILE TEXT_COLUMN LABEL_COLUMN CACHE_FOLDER THREADS. Prints one line of JSON.

#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>

#include "finetune/core/clock.h"
#include "finetune/data/encoded_rows.h"
#include "finetune/data/token_cache.h"
#include "finetune/tokenizer/tokenizer.h"

namespace {

double peak_megabytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace finetune;
  if (argc != 7) return 2;
  const auto tokenizer = load_tokenizer(argv[1]);
  DataConfig config;
  config.text.name = argv[3];
  config.label.name = argv[4];
  const double at_rest = peak_megabytes();
  double build_seconds = 0;
  TokenCache cache(argv[5]);
  const double began = monotonic_seconds();
  const EncodedSplits splits = cache.get({argv[2]}, {{"tokenizer", tokenizer->fingerprint()}}, [&] {
    const double build_began = monotonic_seconds();
    EncodedRows rows = encode_files({argv[2]}, config, LabelPresence::kRequired, std::nullopt, *tokenizer, {},
                                    std::atoi(argv[6]));
    const LabelMap labels = LabelMap::learn(rows.rows.labels);
    EncodedSplits result;
    result.splits.emplace("rows", with_labels(std::move(rows), labels));
    build_seconds = monotonic_seconds() - build_began;
    return result;
  });
  const double seconds = monotonic_seconds() - began;
  const EncodedDataset& rows = splits.splits.at("rows");
  std::printf(
      "{\"rows\": %lld, \"tokens\": %zu, \"encoding_seconds\": %.4f, \"total_seconds\": %.4f, "
      "\"at_rest_mb\": %.1f, "
      "\"peak_mb\": %.1f, \"arrays_mb\": %.1f}\n",
      static_cast<long long>(rows.num_rows()), rows.input_ids.size(), build_seconds, seconds, at_rest,
      peak_megabytes(),
      static_cast<double>(rows.input_ids.num_bytes() + rows.row_offsets.num_bytes() +
                          rows.second_segments.num_bytes() + rows.labels.num_bytes()) /
          (1 << 20));
}
