// Packs the batches of some updates, for counting instructions. Usage: batcher_steps UPDATES. Prints the
// number of tokens.

#include <ATen/Parallel.h>

#include <cstdio>
#include <cstdlib>

#include "finetune/batching/batcher.h"

namespace {

constexpr int64_t kRows = 4096;

finetune::DeviceDataset make_dataset() {
  finetune::EncodedDataset encoded;
  encoded.row_offsets.push_back(0);
  for (int64_t row = 0; row < kRows; ++row) {
    const int64_t length = 4 + (row * 2654435761) % 29;
    for (int64_t i = 0; i < length; ++i) encoded.input_ids.push_back(static_cast<int32_t>((row + i) % 1000));
    encoded.row_offsets.push_back(static_cast<int64_t>(encoded.input_ids.size()));
    encoded.second_segments.push_back(static_cast<int32_t>(length));
    encoded.labels.push_back(row % 7);
  }
  return finetune::to_device(std::move(encoded), c10::Device(c10::kCPU));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  at::set_num_threads(1);
  finetune::DeviceDataset dataset = make_dataset();
  finetune::Batcher batcher(dataset, std::vector<double>(kRows, 1.0), {.batch_size = 32, .seed = 1});
  int64_t num_tokens = 0;
  for (int64_t step = 0; step < std::atoll(argv[1]); ++step) num_tokens += batcher.at(step).num_tokens;
  std::printf("%lld\n", static_cast<long long>(num_tokens));
}
