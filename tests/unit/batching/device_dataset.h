#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "finetune/batching/dataset.h"

namespace finetune::testing {

/// A data set on the CPU whose row r has `lengths[r]` tokens, all of them 100 * r + position, a second
/// segment that begins at position 2 and the label r % 2.
inline DeviceDataset make_dataset(const std::vector<int32_t>& lengths) {
  EncodedDataset encoded;
  encoded.row_offsets.push_back(0);
  for (size_t row = 0; row < lengths.size(); ++row) {
    for (int32_t position = 0; position < lengths[row]; ++position) {
      encoded.input_ids.push_back(static_cast<int32_t>(row) * 100 + position);
    }
    encoded.row_offsets.push_back(static_cast<int64_t>(encoded.input_ids.size()));
    encoded.second_segments.push_back(std::min(2, lengths[row]));
    encoded.labels.push_back(static_cast<int64_t>(row % 2));
  }
  return to_device(encoded, c10::Device(c10::kCPU));
}

}  // namespace finetune::testing
