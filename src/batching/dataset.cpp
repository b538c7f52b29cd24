#include "finetune/batching/dataset.h"

#include <ATen/ATen.h>

#include "finetune/device/transfer.h"

namespace finetune {
namespace {

/// Shares the array's memory where `device` is the host.
template <typename T>
at::Tensor upload(HostArray<T>& values, c10::Device device) {
  const auto owner = values.share();
  const auto host = at::from_blob(
      const_cast<T*>(values.data()), {static_cast<int64_t>(values.size())}, [owner](void*) {},
      c10::CppTypeToScalarType<T>::value);
  return host.to(device);
}

/// Items that have a token become targets; the others stay on the host alone.
void upload_targets(const EncodedDataset& dataset, c10::Device device, DeviceDataset& result) {
  result.item_offsets.assign(dataset.target_offsets.begin(), dataset.target_offsets.end());
  result.item_positions.assign(dataset.target_positions.begin(), dataset.target_positions.end());
  result.item_labels.assign(dataset.labels.begin(), dataset.labels.end());
  std::vector<int64_t> positions;
  result.host_target_offsets.push_back(0);
  for (size_t row = 0; row + 1 < result.item_offsets.size(); ++row) {
    for (int64_t i = result.item_offsets[row]; i < result.item_offsets[row + 1]; ++i) {
      const auto item = static_cast<size_t>(i);
      if (result.item_positions[item] < 0) continue;
      positions.push_back(result.item_positions[item]);
      if (!result.item_labels.empty()) result.host_labels.push_back(result.item_labels[item]);
    }
    result.host_target_offsets.push_back(static_cast<int64_t>(positions.size()));
  }
  result.target_offsets = finetune::upload(result.host_target_offsets, device);
  result.target_positions = finetune::upload(positions, device);
  if (!result.item_labels.empty()) result.labels = finetune::upload(result.host_labels, device);
}

}  // namespace

int64_t DeviceDataset::nbytes() const {
  int64_t bytes = 0;
  for (const at::Tensor& tensor :
       {input_ids, row_offsets, second_segments, labels, target_offsets, target_positions, text_offsets}) {
    if (tensor.defined()) bytes += static_cast<int64_t>(tensor.nbytes());
  }
  return bytes;
}

DeviceDataset DeviceDataset::to(c10::Device device) const {
  DeviceDataset moved = *this;
  for (at::Tensor* tensor : {&moved.input_ids, &moved.row_offsets, &moved.second_segments, &moved.labels,
                             &moved.target_offsets, &moved.target_positions, &moved.text_offsets}) {
    if (tensor->defined()) *tensor = tensor->to(device);
  }
  return moved;
}

DeviceDataset to_device(EncodedDataset dataset, c10::Device device) {
  DeviceDataset result;
  result.input_ids = upload(dataset.input_ids, device);
  result.row_offsets = upload(dataset.row_offsets, device);
  result.second_segments = upload(dataset.second_segments, device);
  if (!dataset.target_offsets.empty()) {
    upload_targets(dataset, device, result);
  } else if (!dataset.values.empty()) {
    result.host_values.assign(dataset.values.begin(), dataset.values.end());
    result.labels = upload(dataset.values, device).view({dataset.num_rows(), -1});
  } else if (!dataset.labels.empty()) {
    result.host_labels.assign(dataset.labels.begin(), dataset.labels.end());
    result.labels = upload(dataset.labels, device);
  }
  if (!dataset.text_offsets.empty()) {
    result.host_text_offsets.assign(dataset.text_offsets.begin(), dataset.text_offsets.end());
    result.text_offsets = upload(dataset.text_offsets, device);
  }
  result.lengths.reserve(static_cast<size_t>(dataset.num_rows()));
  for (int64_t row = 0; row < dataset.num_rows(); ++row) {
    result.lengths.push_back(static_cast<int32_t>(dataset.length(row)));
  }
  return result;
}

}  // namespace finetune
