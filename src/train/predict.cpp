#include "finetune/train/predict.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cerrno>
#include <fstream>
#include <limits>
#include <system_error>

#include "finetune/core/file.h"
#include "finetune/data/encoded_dataset.h"
#include "finetune/device/transfer.h"
#include "finetune/train/evaluate.h"
#include "row_checks.h"

namespace finetune {
namespace {

/// Rows read, encoded and answered together.
constexpr size_t kChunkRows = 2048;

/// Rows read one after the other as a dataset.
TextDataset text_dataset(const std::vector<Row>& rows, const std::filesystem::path& file,
                         const DataConfig& config, bool with_labels) {
  TextDataset dataset;
  dataset.configure(config);
  for (Row row : rows) {
    if (!with_labels) {
      row.label.reset();
      row.labels.reset();
    }
    dataset.push_back(std::move(row), file);
  }
  return dataset;
}

class ChunkRunner {
 public:
  /// meter: null where the rows have no labels.
  ChunkRunner(const TrainedModel& trained, c10::Device device, Meter* meter, const PredictionSink& sink)
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
    warn_of_lost_items(reader.file().string(), num_lost_items_, num_items_);
  }

 private:
  /// The logits of some texts, each a line of the file, on their way to the host.
  struct Pending {
    int64_t first_row, num_rows;
    AsyncRead logits;
  };

  void run_chunk(const std::vector<Row>& rows, const std::filesystem::path& file) {
    const TextDataset texts = text_dataset(rows, file, trained_.data, meter_ != nullptr);
    const EncodedDataset encoded =
        encode_dataset(texts, *trained_.tokenizer, options_, trained_.task->labels(), at::get_num_threads(),
                       trained_.task->config().ignore_index);
    refuse_long_rows(texts, encoded, trained_.model->config().max_positions);
    const DeviceDataset dataset = to_device(encoded, device_);
    num_items_ += static_cast<int64_t>(dataset.item_positions.size());
    num_lost_items_ += encoded.num_lost_items();
    std::optional<TextMeter> meter;
    if (meter_ != nullptr) meter.emplace(*trained_.task, dataset, *meter_);
    std::optional<Pending> pending;
    for_each_batch(*trained_.model, *trained_.task, dataset, [&](const Answered& answered) {
      if (meter) meter->add(answered);
      if (!sink_) return;
      // The device computes this batch while the host writes the one before.
      Pending next{answered.first_text, answered.num_texts, AsyncRead(answered.logits.contiguous())};
      if (pending) give(rows, dataset, *pending);
      pending.emplace(std::move(next));
    });
    if (pending) give(rows, dataset, *pending);
  }

  void give(const std::vector<Row>& rows, const DeviceDataset& dataset, const Pending& pending) const {
    const at::Tensor& host = pending.logits.wait();
    const float* values = host.const_data_ptr<float>();
    for (int64_t row = pending.first_row; row < pending.first_row + pending.num_rows; ++row) {
      RowLogits logits{.values = values, .of_items = dataset.has_targets(), .item_positions = {}};
      if (dataset.has_targets()) {
        const auto* items = dataset.item_offsets.data() + row;
        logits.item_positions = {dataset.item_positions.data() + items[0],
                                 static_cast<size_t>(items[1] - items[0])};
      }
      const Row& text = rows[static_cast<size_t>(row)];
      sink_({text, trained_.task->answer(text, logits), logits});
      const auto [first, last] = dataset.labels_of(row, row + 1);
      values += (last - first) * host.size(1);
    }
  }

  const TrainedModel& trained_;
  c10::Device device_;
  Meter* meter_;
  const PredictionSink& sink_;
  RowOptions options_;
  int64_t num_items_ = 0;
  int64_t num_lost_items_ = 0;  ///< without a token
};

}  // namespace

void predict(const TrainedModel& trained, c10::Device device, RowReader& reader, const PredictionSink& sink) {
  ChunkRunner(trained, device, nullptr, sink).run(reader);
}

Json evaluate_rows(const TrainedModel& trained, c10::Device device, RowReader& reader,
                   const PredictionSink& sink) {
  const auto meter = trained.task->make_meter(device);
  ChunkRunner(trained, device, meter.get(), sink).run(reader);
  return meter->drain();
}

NpyWriter::NpyWriter(const std::filesystem::path& path, int64_t num_columns)
    : path_(path), file_(path), num_columns_(num_columns) {
  file_.write(header());
}

void NpyWriter::append(const RowLogits& logits) {
  if (!logits.of_items) return append_line(logits.values);
  const std::vector<float> nothing(static_cast<size_t>(num_columns_),
                                   std::numeric_limits<float>::quiet_NaN());
  const float* values = logits.values;
  for (const int32_t position : logits.item_positions) {
    append_line(position < 0 ? nothing.data() : values);
    if (position >= 0) values += num_columns_;
  }
}

void NpyWriter::append_line(const float* line) {
  constexpr size_t kMostValues = size_t{1} << 16;
  values_.insert(values_.end(), line, line + num_columns_);
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
