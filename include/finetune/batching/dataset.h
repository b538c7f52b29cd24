#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "finetune/data/encoded_dataset.h"

namespace finetune {

/// A split on a device: the token arena, moved once. Lengths and labels stay on the host as well, so that
/// nobody asks the device for a size or for the weight of a loss. Tensors are read only: on the CPU they lie
/// in the encoded split's own memory, which may be a mapped file, and can be streamed from there to another
/// device (see Batcher).
struct DeviceDataset {
  at::Tensor input_ids;              ///< [T] int32
  at::Tensor row_offsets;            ///< [R + 1] int64
  at::Tensor second_segments;        ///< [R] int32
  at::Tensor labels;                 ///< [R] int64, or undefined
  std::vector<int32_t> lengths;      ///< [R]
  std::vector<int64_t> host_labels;  ///< [R], or empty

  int64_t num_rows() const { return static_cast<int64_t>(lengths.size()); }
  c10::Device device() const { return input_ids.device(); }
  /// Bytes on the device.
  int64_t nbytes() const;
  /// The same split on another device. Waits for the copies.
  DeviceDataset to(c10::Device device) const;
};

/// Moves an encoded split to `device` in one piece; on the CPU nothing is copied.
DeviceDataset to_device(EncodedDataset dataset, c10::Device device);

}  // namespace finetune
