#include "finetune/data/encoded_dataset.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>

#include "finetune/core/error.h"
#include "finetune/core/hash.h"
#include "finetune/core/signals.h"
#include "finetune/data/encoded_rows.h"
#include "item_encoder.h"
#include "label_encoder.h"
#include "row_stream.h"
#include "windows.h"

namespace finetune {
namespace {

constexpr int64_t kRowsPerBlock = 256;

// Texts that are in memory at a time: enough to keep every thread busy.
constexpr size_t kRowsPerPiece = size_t{1} << 16;
constexpr size_t kBytesPerPiece = size_t{8} << 20;

/// The rows [first, last) of a data set, encoded.
struct Block {
  std::vector<int32_t> ids;
  std::vector<RowShape> shapes;
  std::vector<int64_t> text_ends;      ///< of each text in `shapes`
  std::vector<int32_t> positions;      ///< of the rows' items, where they have any
  std::vector<int64_t> position_ends;  ///< of each row in `positions`
  std::exception_ptr error;
};

/// Of the rows whose texts are there.
void encode_block(const TextDataset& rows, int64_t first, int64_t last, const Tokenizer& tokenizer,
                  RowEncoder& encoder, const RowOptions& options, Block& block) {
  block.shapes.reserve(static_cast<size_t>(last - first));
  for (int64_t row = first; row < last; ++row) {
    const auto index = static_cast<size_t>(row);
    try {
      if (rows.item_kind != ItemKind::kNone) {
        block.shapes.push_back(append_items(rows, index, tokenizer, options, block.ids, block.positions));
        block.position_ends.push_back(static_cast<int64_t>(block.positions.size()));
        block.text_ends.push_back(static_cast<int64_t>(block.shapes.size()));
        continue;
      }
      const auto pair =
          rows.pairs.empty() ? std::nullopt : std::optional<std::string_view>(rows.pairs[index]);
      const size_t before = block.ids.size();
      const RowShape shape = encoder.append(rows.texts[index], pair, options, block.ids);
      if (shape.truncated && options.stride) {
        block.ids.resize(before);
        append_windows(rows.texts[index], pair, tokenizer, options, block.ids, block.shapes);
      } else {
        block.shapes.push_back(shape);
      }
      block.text_ends.push_back(static_cast<int64_t>(block.shapes.size()));
    } catch (const DataError& error) {
      const int64_t rows_before = rows.num_rows() - static_cast<int64_t>(rows.texts.size());
      throw DataError(rows.place(rows_before + row) + ": " + error.what());
    }
  }
}

/// Blocks are claimed in order and none is claimed after a failure, so all before the first that fails are
/// whole, whatever the number of threads: the error that is reported is the first row's.
std::vector<Block> encode_blocks(const TextDataset& rows, const Tokenizer& tokenizer,
                                 const RowOptions& options, int threads) {
  const auto num_rows = static_cast<int64_t>(rows.texts.size());
  std::vector<Block> blocks(static_cast<size_t>((num_rows + kRowsPerBlock - 1) / kRowsPerBlock));
  std::atomic<size_t> next_block{0};
  std::atomic<bool> stop{false};
  const auto work = [&] {
    const auto encoder = tokenizer.row_encoder();
    while (!stop) {
      const size_t index = next_block.fetch_add(1);
      if (index >= blocks.size()) return;
      const int64_t first = static_cast<int64_t>(index) * kRowsPerBlock;
      try {
        encode_block(rows, first, std::min(first + kRowsPerBlock, num_rows), tokenizer, *encoder, options,
                     blocks[index]);
      } catch (...) {
        blocks[index].error = std::current_exception();
        stop = true;
      }
      if (stop_request() != StopRequest::kNone) stop = true;
    }
  };
  {
    std::vector<std::jthread> helpers;
    const auto num_helpers =
        std::min<size_t>(static_cast<size_t>(std::max(threads, 1)), std::max<size_t>(blocks.size(), 1)) - 1;
    for (size_t i = 0; i < num_helpers; ++i) helpers.emplace_back(work);
    work();
  }
  throw_if_stop_requested();
  for (const Block& block : blocks) {
    if (block.error) std::rethrow_exception(block.error);
  }
  return blocks;
}

/// Joins encoded blocks.
class Arena {
 public:
  Arena() {
    dataset_.row_offsets.push_back(0);
    dataset_.text_offsets.push_back(0);
  }

  void append(const std::vector<Block>& blocks) {
    for (const Block& block : blocks) {
      const int64_t rows_before = dataset_.num_rows();
      for (const int64_t end : block.text_ends) dataset_.text_offsets.push_back(rows_before + end);
      dataset_.input_ids.append(block.ids.data(), block.ids.data() + block.ids.size());
      for (const RowShape& shape : block.shapes) {
        dataset_.row_offsets.push_back(dataset_.row_offsets.back() + shape.num_tokens);
        dataset_.second_segments.push_back(static_cast<int32_t>(shape.second_segment));
        dataset_.num_truncated += shape.truncated ? 1 : 0;
        truncated_.push_back(shape.truncated);
      }
      append_targets(block);
    }
  }

  EncodedDataset take_dataset() {
    if (dataset_.num_texts() == dataset_.num_rows()) dataset_.text_offsets = {};
    return std::move(dataset_);
  }
  std::vector<bool> take_truncated() { return std::move(truncated_); }

 private:
  void append_targets(const Block& block) {
    if (block.position_ends.empty()) return;
    if (dataset_.target_offsets.empty()) dataset_.target_offsets.push_back(0);
    const int64_t before = dataset_.target_offsets.back();
    for (const int64_t end : block.position_ends) dataset_.target_offsets.push_back(before + end);
    dataset_.target_positions.append(block.positions.data(), block.positions.data() + block.positions.size());
  }

  EncodedDataset dataset_;
  std::vector<bool> truncated_;
};

std::string fingerprint(const EncodedDataset& dataset) {
  Xxh3 hash;
  EncodedDataset::visit_arrays(dataset, [&](const char*, const auto& values) {
    if (values.empty()) return;  // what a task has none of leaves the hash as it was
    const uint64_t size = values.size();
    hash.update(&size, sizeof(size));
    hash.update(values.data(), values.num_bytes());
  });
  return hash.hex();
}

/// Every window learns with its text's label.
template <typename T>
HostArray<T> for_windows(HostArray<T> of_texts, const EncodedDataset& dataset) {
  if (dataset.text_offsets.empty() || of_texts.empty()) return of_texts;
  const size_t width = of_texts.size() / static_cast<size_t>(dataset.num_texts());
  HostArray<T> of_rows;
  for (size_t text = 0; text + 1 < dataset.text_offsets.size(); ++text) {
    const T* first = of_texts.data() + text * width;
    for (int64_t row = dataset.text_offsets[text]; row < dataset.text_offsets[text + 1]; ++row) {
      of_rows.append(first, first + width);
    }
  }
  return of_rows;
}

void set_labels(EncodedLabels labels, EncodedDataset& dataset) {
  dataset.labels = for_windows(std::move(labels.ids), dataset);
  dataset.values = for_windows(std::move(labels.values), dataset);
}

}  // namespace

EncodedDataset encode_dataset(const TextDataset& rows, const Tokenizer& tokenizer, const RowOptions& options,
                              const LabelMap& labels, int threads, int64_t ignore_index) {
  EncodedLabels encoded = encode_labels(rows, labels, ignore_index);
  Arena arena;
  arena.append(encode_blocks(rows, tokenizer, options, threads));
  EncodedDataset dataset = arena.take_dataset();
  set_labels(std::move(encoded), dataset);
  dataset.num_replaced = rows.num_replaced;
  dataset.fingerprint = fingerprint(dataset);
  return dataset;
}

EncodedRows encode_files(const std::vector<std::filesystem::path>& files, const DataConfig& config,
                         LabelPresence labels, std::optional<int64_t> max_rows, const Tokenizer& tokenizer,
                         const RowOptions& options, int threads) {
  RowStream stream(files, config, labels, max_rows);
  EncodedRows result;
  Arena arena;
  while (stream.read(result.rows, kRowsPerPiece, kBytesPerPiece)) {
    arena.append(encode_blocks(result.rows, tokenizer, options, threads));
    result.rows.texts.clear();
    result.rows.pairs.clear();
    result.rows.items.clear();
    result.rows.positions.clear();
  }
  result.dataset = arena.take_dataset();
  result.truncated = arena.take_truncated();
  return result;
}

EncodedDataset with_labels(EncodedRows rows, const LabelMap& labels, int64_t ignore_index) {
  EncodedDataset dataset = std::move(rows.dataset);
  EncodedLabels encoded = encode_labels(rows.rows, labels, ignore_index);
  set_labels(std::move(encoded), dataset);
  dataset.num_replaced = rows.rows.num_replaced;
  dataset.fingerprint = fingerprint(dataset);
  return dataset;
}

}  // namespace finetune
