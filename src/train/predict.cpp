#include "finetune/train/predict.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "finetune/core/file.h"
#include "finetune/data/encoded_dataset.h"
#include "finetune/train/evaluate.h"

namespace finetune {
namespace {

/// Rows read, encoded and answered together.
constexpr size_t kChunkRows = 2048;

/// A chunk of rows as an unlabelled dataset.
TextDataset text_dataset(const std::vector<Row>& rows) {
  TextDataset dataset;
  for (const Row& row : rows) {
    dataset.texts.push_back(row.text);
    if (row.text_pair) dataset.pairs.push_back(*row.text_pair);
    dataset.lines.push_back(row.line);
    dataset.file_index.push_back(0);
  }
  dataset.files.emplace_back("input");
  return dataset;
}

void answer_chunk(const TrainedModel& trained, c10::Device device, const std::vector<Row>& rows,
                  const std::function<void(const Prediction&)>& sink) {
  const auto options = encode_options(trained.data, trained.model->config().max_positions);
  const EncodedDataset encoded = encode_dataset(text_dataset(rows), *trained.tokenizer, options, trained.task->labels(),
                                                at::get_num_threads());
  const DeviceDataset dataset = to_device(encoded, device);
  for_each_batch(*trained.model, dataset, [&](int64_t first_row, const Batch& batch, const at::Tensor& logits) {
    const auto host = logits.to(at::kCPU).contiguous();
    const float* values = host.const_data_ptr<float>();
    for (int64_t i = 0; i < batch.num_rows; ++i) {
      const float* row_logits = values + i * host.size(1);
      sink({rows[static_cast<size_t>(first_row + i)], trained.task->answer(row_logits), row_logits});
    }
  });
}

}  // namespace

void predict(const TrainedModel& trained, c10::Device device, const std::function<bool(Row&)>& next,
             const std::function<void(const Prediction&)>& sink) {
  std::vector<Row> rows;
  bool more = true;
  while (more) {
    rows.clear();
    Row row;
    while (rows.size() < kChunkRows && (more = next(row))) rows.push_back(row);
    if (!rows.empty()) answer_chunk(trained, device, rows, sink);
  }
}

NpyWriter::NpyWriter(const std::filesystem::path& path, int64_t num_columns)
    : path_(path), num_columns_(num_columns) {}

void NpyWriter::append(const float* row) { values_.insert(values_.end(), row, row + num_columns_); }

std::string NpyWriter::header() const {
  const auto num_rows = values_.size() / static_cast<size_t>(num_columns_);
  std::string text = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(num_rows) + ", " +
                     std::to_string(num_columns_) + "), }";
  // NumPy's format: magic, version, length, text; all of it a multiple of 64 bytes, ended by a line break.
  constexpr size_t kPreamble = 10;
  const size_t padded = (kPreamble + text.size() + 1 + 63) / 64 * 64;
  text.resize(padded - kPreamble - 1, ' ');
  text += '\n';
  std::string header = "\x93NUMPY\x01";
  header += '\0';
  header += static_cast<char>(text.size() & 0xFF);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

void NpyWriter::close() {
  OutputFile file(path_);
  file.write(header());
  file.write(values_.data(), values_.size() * sizeof(float));
  file.close();
}

}  // namespace finetune
