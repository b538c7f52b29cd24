#include "finetune/batching/dataset.h"

#include <ATen/ATen.h>

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

}  // namespace

int64_t DeviceDataset::nbytes() const {
  int64_t bytes = 0;
  for (const at::Tensor& tensor : {input_ids, row_offsets, second_segments, labels}) {
    if (tensor.defined()) bytes += static_cast<int64_t>(tensor.nbytes());
  }
  return bytes;
}

DeviceDataset DeviceDataset::to(c10::Device device) const {
  DeviceDataset moved = *this;
  for (at::Tensor* tensor : {&moved.input_ids, &moved.row_offsets, &moved.second_segments, &moved.labels}) {
    if (tensor->defined()) *tensor = tensor->to(device);
  }
  return moved;
}

DeviceDataset to_device(EncodedDataset dataset, c10::Device device) {
  DeviceDataset result;
  result.input_ids = upload(dataset.input_ids, device);
  result.row_offsets = upload(dataset.row_offsets, device);
  result.second_segments = upload(dataset.second_segments, device);
  if (!dataset.labels.empty()) result.labels = upload(dataset.labels, device);
  result.host_labels.assign(dataset.labels.begin(), dataset.labels.end());
  result.lengths.reserve(static_cast<size_t>(dataset.num_rows()));
  for (int64_t row = 0; row < dataset.num_rows(); ++row) {
    result.lengths.push_back(static_cast<int32_t>(dataset.length(row)));
  }
  return result;
}

}  // namespace finetune
