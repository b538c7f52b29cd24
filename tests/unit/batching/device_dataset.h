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

/// The same with items in place of a label a row: row r has r % 3 + 1 of them, of which item i lies at token
/// i (the last one nowhere where r is odd) and has the label 10 * r + i.
inline DeviceDataset make_dataset_of_items(const std::vector<int32_t>& lengths) {
  EncodedDataset encoded;
  encoded.row_offsets.push_back(0);
  encoded.target_offsets.push_back(0);
  for (size_t row = 0; row < lengths.size(); ++row) {
    for (int32_t position = 0; position < lengths[row]; ++position) {
      encoded.input_ids.push_back(static_cast<int32_t>(row) * 100 + position);
    }
    encoded.row_offsets.push_back(static_cast<int64_t>(encoded.input_ids.size()));
    encoded.second_segments.push_back(lengths[row]);
    const auto num_items = static_cast<int32_t>(row % 3 + 1);
    for (int32_t item = 0; item < num_items; ++item) {
      encoded.target_positions.push_back(row % 2 == 1 && item + 1 == num_items ? -1 : item);
      encoded.labels.push_back(static_cast<int64_t>(10 * row) + item);
    }
    encoded.target_offsets.push_back(static_cast<int64_t>(encoded.target_positions.size()));
  }
  return to_device(encoded, c10::Device(c10::kCPU));
}

}  // namespace finetune::testing
