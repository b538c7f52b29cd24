#pragma once

#include "finetune/data/encoded_dataset.h"

namespace finetune {

/// The labels of rows as `EncodedDataset` holds them: the one that the labels' shape asks for.
struct EncodedLabels {
  HostArray<int64_t> ids;
  HostArray<float> values;
};

/// Throws `DataError` for a class that `labels` does not have and for a value that is no number (file, line,
/// value, remedy).
EncodedLabels encode_labels(const TextDataset& rows, const LabelMap& labels, int64_t ignore_index);

}  // namespace finetune
