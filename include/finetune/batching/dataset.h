#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "finetune/data/encoded_dataset.h"

namespace finetune {

/// A split on a device: the token arena, moved once. Lengths and labels stay on the host as well, so that
/// nobody asks the device for a size or for the weight of a loss. Tensors are read only: on the CPU they lie
/// in the encoded split's own memory, which may be a mapped file, and can be streamed from there to another
/// device (see Batcher).
struct DeviceDataset {
  at::Tensor input_ids;        ///< [T] int32
  at::Tensor row_offsets;      ///< [R + 1] int64
  at::Tensor second_segments;  ///< [R] int32
  at::Tensor labels;           ///< [R] or [L] int64, [R, W] float32, or undefined
  at::Tensor
      target_offsets;  ///< [R + 1] int64: row r's part of the L targets; undefined where rows are labelled
  at::Tensor target_positions;       ///< [L] int64: each target's token in its row
  at::Tensor text_offsets;           ///< [D + 1] int64: text d's windows; undefined: each text is a row
  std::vector<int32_t> lengths;      ///< [R]
  std::vector<int64_t> host_labels;  ///< as `labels`, or empty
  std::vector<float> host_values;    ///< as `labels` where those are float32, else empty
  std::vector<int64_t> host_target_offsets;  ///< as `target_offsets`, or empty
  std::vector<int64_t> host_text_offsets;    ///< as `text_offsets`, or empty
  std::vector<int64_t> item_offsets;         ///< [R + 1] of the rows' items; empty where rows are labelled
  std::vector<int32_t> item_positions;       ///< each item's token in its row; -1: none, and no target
  std::vector<int64_t> item_labels;          ///< as `item_positions`; empty where there are no labels

  int64_t num_rows() const { return static_cast<int64_t>(lengths.size()); }
  /// Whether texts may be several rows, windows of them, which are answered together.
  bool has_windows() const { return !host_text_offsets.empty(); }
  int64_t num_texts() const {
    return has_windows() ? static_cast<int64_t>(host_text_offsets.size()) - 1 : num_rows();
  }
  /// Whether positions in rows are predicted for, not rows.
  bool has_targets() const { return !host_target_offsets.empty(); }
  /// Labels that rows [first, last) have in `labels`.
  std::pair<int64_t, int64_t> labels_of(int64_t first, int64_t last) const {
    if (!has_targets()) return {first, last};
    return {host_target_offsets[static_cast<size_t>(first)], host_target_offsets[static_cast<size_t>(last)]};
  }
  c10::Device device() const { return input_ids.device(); }
  /// Bytes on the device.
  int64_t nbytes() const;
  /// The same split on another device. Waits for the copies.
  DeviceDataset to(c10::Device device) const;
};

/// Moves an encoded split to `device` in one piece; on the CPU nothing is copied.
DeviceDataset to_device(EncodedDataset dataset, c10::Device device);

}  // namespace finetune
