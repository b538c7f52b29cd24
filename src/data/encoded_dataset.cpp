#include "finetune/data/encoded_dataset.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>

#include "finetune/core/error.h"
#include "finetune/core/hash.h"
#include "finetune/core/signals.h"
#include "finetune/data/message.h"

namespace finetune {
namespace {

constexpr int64_t kRowsPerBlock = 256;

/// The rows [first, last) of a data set, encoded.
struct Block {
  std::vector<int32_t> ids;
  std::vector<RowShape> shapes;
  std::exception_ptr error;
};

void encode_block(const TextDataset& rows, int64_t first, int64_t last, const Tokenizer& tokenizer,
                  const EncodeOptions& options, Block& block) {
  block.shapes.reserve(static_cast<size_t>(last - first));
  for (int64_t row = first; row < last; ++row) {
    const auto index = static_cast<size_t>(row);
    const auto pair = rows.pairs.empty() ? std::nullopt : std::optional<std::string_view>(rows.pairs[index]);
    try {
      block.shapes.push_back(tokenizer.append(rows.texts[index], pair, options, block.ids));
    } catch (const DataError& error) {
      throw DataError(rows.place(row) + ": " + error.what());
    }
  }
}

/// Blocks are claimed in order and none is claimed after a failure, so all before the first that fails are
/// whole, whatever the number of threads: the error that is reported is the first row's.
std::vector<Block> encode_blocks(const TextDataset& rows, const Tokenizer& tokenizer,
                                 const EncodeOptions& options, int threads) {
  const int64_t num_rows = rows.num_rows();
  std::vector<Block> blocks(static_cast<size_t>((num_rows + kRowsPerBlock - 1) / kRowsPerBlock));
  std::atomic<size_t> next_block{0};
  std::atomic<bool> stop{false};
  const auto work = [&] {
    while (!stop) {
      const size_t index = next_block.fetch_add(1);
      if (index >= blocks.size()) return;
      const int64_t first = static_cast<int64_t>(index) * kRowsPerBlock;
      try {
        encode_block(rows, first, std::min(first + kRowsPerBlock, num_rows), tokenizer, options,
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

std::vector<int64_t> encode_labels(const TextDataset& rows, const LabelMap& labels, int64_t ignore_index) {
  std::vector<int64_t> ids;
  ids.reserve(rows.labels.size());
  for (size_t row = 0; row < rows.labels.size(); ++row) {
    const std::string& label = rows.labels[row];
    const auto id = label.empty() ? ignore_index : labels.id(label);
    if (!id) {
      throw DataError(rows.place(static_cast<int64_t>(row)) + ": label " + shown(label) +
                      " is not known; the " + std::to_string(labels.size()) + " known labels are " +
                      shown_list(labels.names()) + suggestion(label, labels.names()) +
                      "; correct the row, or train with data (or task.labels) that has this label");
    }
    ids.push_back(*id);
  }
  return ids;
}

template <typename T>
void hash_vector(Xxh3& hash, const std::vector<T>& values) {
  const uint64_t size = values.size();
  hash.update(&size, sizeof(size));
  hash.update(values.data(), values.size() * sizeof(T));
}

std::string fingerprint(const EncodedDataset& dataset) {
  Xxh3 hash;
  hash_vector(hash, dataset.input_ids);
  hash_vector(hash, dataset.row_offsets);
  hash_vector(hash, dataset.second_segments);
  hash_vector(hash, dataset.labels);
  return hash.hex();
}

}  // namespace

EncodedDataset encode_dataset(const TextDataset& rows, const Tokenizer& tokenizer,
                              const EncodeOptions& options, const LabelMap& labels, int threads,
                              int64_t ignore_index) {
  EncodedDataset dataset;
  dataset.labels = encode_labels(rows, labels, ignore_index);
  dataset.num_replaced = rows.num_replaced;
  std::vector<Block> blocks = encode_blocks(rows, tokenizer, options, threads);

  size_t num_tokens = 0;
  for (const Block& block : blocks) num_tokens += block.ids.size();
  dataset.input_ids.reserve(num_tokens);
  dataset.row_offsets.reserve(rows.texts.size() + 1);
  dataset.second_segments.reserve(rows.texts.size());
  dataset.row_offsets.push_back(0);
  for (Block& block : blocks) {
    dataset.input_ids.insert(dataset.input_ids.end(), block.ids.begin(), block.ids.end());
    for (const RowShape& shape : block.shapes) {
      dataset.row_offsets.push_back(dataset.row_offsets.back() + shape.num_tokens);
      dataset.second_segments.push_back(static_cast<int32_t>(shape.second_segment));
      dataset.num_truncated += shape.truncated ? 1 : 0;
    }
    block = Block();
  }
  dataset.fingerprint = fingerprint(dataset);
  return dataset;
}

}  // namespace finetune
