#include "finetune/train/predict.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cerrno>
#include <fstream>
#include <numeric>
#include <system_error>

#include "finetune/core/file.h"
#include "finetune/data/encoded_dataset.h"
#include "finetune/device/transfer.h"
#include "finetune/train/evaluate.h"
#include "row_lengths.h"

namespace finetune {
namespace {

/// Rows read, encoded and answered together.
constexpr size_t kChunkRows = 2048;

/// Rows read one after the other as a dataset.
TextDataset text_dataset(const std::vector<Row>& rows, const std::filesystem::path& file, bool with_labels) {
  TextDataset dataset;
  for (const Row& row : rows) {
    dataset.texts.push_back(row.text);
    if (row.text_pair) dataset.pairs.push_back(*row.text_pair);
    if (with_labels) dataset.labels.push_back(row.label.value_or(""));
    dataset.lines.push_back(row.line);
    dataset.file_index.push_back(0);
  }
  dataset.files.push_back(file);
  return dataset;
}

class ChunkRunner {
 public:
  /// meter: null where the rows have no labels.
  ChunkRunner(const TrainedModel& trained, c10::Device device, ClassificationMeter* meter,
              const PredictionSink& sink)
      : trained_(trained),
        device_(device),
        meter_(meter),
        sink_(sink),
        options_(encode_options(trained.data, trained.model->config().max_positions)) {}

  void run(RowReader& reader) {
    std::vector<Row> rows;
    Row row;
    bool more = true;
    while (more) {
      rows.clear();
      while (rows.size() < kChunkRows && (more = reader.next(row))) rows.push_back(row);
      if (!rows.empty()) run_chunk(rows, reader.file());
    }
  }

 private:
  /// The logits of the rows from the first one on, on their way to the host.
  using Pending = std::optional<std::pair<int64_t, AsyncRead>>;

  void run_chunk(const std::vector<Row>& rows, const std::filesystem::path& file) {
    const TextDataset texts = text_dataset(rows, file, meter_ != nullptr);
    const EncodedDataset encoded =
        encode_dataset(texts, *trained_.tokenizer, options_, trained_.task->labels(), at::get_num_threads());
    refuse_long_rows(texts, encoded, trained_.model->config().max_positions);
    const DeviceDataset dataset = to_device(encoded, device_);
    const auto weights = trained_.task->label_weights(dataset.host_labels);
    Pending pending;
    for_each_batch(*trained_.model, dataset,
                   [&](int64_t first_row, const Batch& batch, const at::Tensor& logits) {
                     if (meter_ != nullptr) {
                       const auto first = weights.begin() + first_row;
                       meter_->add(trained_.task->loss_sum(logits, batch.labels), logits, batch.labels,
                                   std::accumulate(first, first + batch.num_rows, 0.0));
                     }
                     if (!sink_) return;
                     // The device computes this batch while the host writes the one before.
                     Pending next = std::make_pair(first_row, AsyncRead(logits.contiguous()));
                     give(rows, pending);
                     pending = std::move(next);
                   });
    give(rows, pending);
  }

  void give(const std::vector<Row>& rows, const Pending& pending) const {
    if (!pending) return;
    const int64_t first_row = pending->first;
    const at::Tensor& host = pending->second.wait();
    for (int64_t i = 0; i < host.size(0); ++i) {
      const float* row_logits = host.const_data_ptr<float>() + i * host.size(1);
      sink_({rows[static_cast<size_t>(first_row + i)], trained_.task->answer(row_logits), row_logits});
    }
  }

  const TrainedModel& trained_;
  c10::Device device_;
  ClassificationMeter* meter_;
  const PredictionSink& sink_;
  EncodeOptions options_;
};

}  // namespace

void predict(const TrainedModel& trained, c10::Device device, RowReader& reader, const PredictionSink& sink) {
  ChunkRunner(trained, device, nullptr, sink).run(reader);
}

Json evaluate_rows(const TrainedModel& trained, c10::Device device, RowReader& reader,
                   const PredictionSink& sink) {
  ClassificationMeter meter = trained.task->make_meter(device);
  ChunkRunner(trained, device, &meter, sink).run(reader);
  return meter.drain();
}

NpyWriter::NpyWriter(const std::filesystem::path& path, int64_t num_columns)
    : path_(path), file_(path), num_columns_(num_columns) {
  file_.write(header());
}

void NpyWriter::append(const float* row) {
  constexpr size_t kMostValues = size_t{1} << 16;
  values_.insert(values_.end(), row, row + num_columns_);
  ++num_rows_;
  if (values_.size() >= kMostValues) flush();
}

std::string NpyWriter::header() const {
  std::string text = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(num_rows_) +
                     ", " + std::to_string(num_columns_) + "), }";
  // NumPy's format: magic, version, length, text; all of it a multiple of 64 bytes, ended by a line break.
  // The size is the same for any number of rows.
  constexpr size_t kPreamble = 10, kSize = 128;
  text.resize(kSize - kPreamble - 1, ' ');
  text += '\n';
  std::string header = "\x93NUMPY\x01";
  header += '\0';
  header += static_cast<char>(text.size() & 0xFF);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

void NpyWriter::flush() {
  file_.write(values_.data(), values_.size() * sizeof(float));
  values_.clear();
}

void NpyWriter::close() {
  flush();
  file_.close();
  std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
  if (!(file << header()).flush()) {
    throw std::system_error(errno, std::generic_category(), "cannot write the header of " + path_.string());
  }
}

}  // namespace finetune
