#include "safetensors_header.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "finetune/core/error.h"
#include "finetune/core/text.h"
#include "json_reader.h"
#include "tensor_bytes.h"

namespace finetune {
namespace {

using Entry = SafetensorsFile::Entry;

/// An entry as it is written, and where.
struct WrittenEntry {
  Entry entry;
  size_t offset = 0;  ///< of its name in the file
};

std::string in_quotes(std::string_view name) {
  std::string quoted("'");
  quoted.append(name).push_back('\'');
  return quoted;
}

at::ScalarType parse_dtype(JsonReader& reader, const std::string& name) {
  const size_t offset = reader.offset();
  const std::string text = reader.string("the dtype of " + in_quotes(name) + " as a string");
  const auto dtype = safetensors_dtype(text);
  if (!dtype) {
    reader.fail(offset, "the dtype " + in_quotes(text) + " of " + in_quotes(name),
                "one of " + safetensors_dtype_names());
  }
  return *dtype;
}

std::vector<int64_t> parse_shape(JsonReader& reader, const std::string& name) {
  std::vector<int64_t> sizes;
  reader.expect('[', "the shape of " + in_quotes(name) + " as a list");
  if (reader.accept(']')) return sizes;
  do {
    sizes.push_back(reader.count("a size of " + in_quotes(name) + " (a whole number from 0)"));
  } while (reader.accept(','));
  reader.expect(']', "',' or ']' in the shape of " + in_quotes(name));
  return sizes;
}

void parse_offsets(JsonReader& reader, Entry& entry) {
  const std::string what = "data_offsets of " + in_quotes(entry.name) + " as [begin, end]";
  reader.expect('[', what);
  entry.begin = static_cast<size_t>(reader.count(what));
  reader.expect(',', what);
  entry.end = static_cast<size_t>(reader.count(what));
  reader.expect(']', what);
}

Entry parse_entry(JsonReader& reader, std::string name) {
  Entry entry;
  entry.name = std::move(name);
  const size_t start = reader.offset();
  reader.expect('{', "an object that describes " + in_quotes(entry.name));
  bool has_dtype = false, has_shape = false, has_offsets = false;
  const auto once = [&](bool& seen, const std::string& key, size_t offset) {
    if (std::exchange(seen, true))
      reader.fail(offset, "the key " + in_quotes(key) + " a second time", "each key once");
  };
  if (!reader.accept('}')) {
    do {
      const size_t offset = reader.offset();
      const std::string key = reader.string("a key of " + in_quotes(entry.name));
      reader.expect(':', "':' after the key " + in_quotes(key));
      if (key == "dtype") {
        once(has_dtype, key, offset);
        entry.dtype = parse_dtype(reader, entry.name);
      } else if (key == "shape") {
        once(has_shape, key, offset);
        entry.sizes = parse_shape(reader, entry.name);
      } else if (key == "data_offsets") {
        once(has_offsets, key, offset);
        parse_offsets(reader, entry);
      } else {
        reader.fail(offset, "the key " + in_quotes(key) + " in " + in_quotes(entry.name),
                    "dtype, shape or data_offsets");
      }
    } while (reader.accept(','));
    reader.expect('}', "',' or '}' after a value of " + in_quotes(entry.name));
  }
  for (const auto& [seen, key] :
       {std::pair{has_dtype, "dtype"}, {has_shape, "shape"}, {has_offsets, "data_offsets"}}) {
    if (!seen)
      reader.fail(start, "no " + std::string(key) + " for " + in_quotes(entry.name),
                  "dtype, shape and data_offsets");
  }
  return entry;
}

std::map<std::string, std::string> parse_metadata(JsonReader& reader) {
  std::map<std::string, std::string> metadata;
  reader.expect('{', "__metadata__ as an object");
  if (reader.accept('}')) return metadata;
  do {
    const size_t offset = reader.offset();
    std::string key = reader.string("a key of __metadata__");
    reader.expect(':', "':' after the key " + in_quotes(key));
    std::string value = reader.string("a string: __metadata__ holds nothing else");
    const std::string name = key;
    if (!metadata.emplace(std::move(key), std::move(value)).second) {
      reader.fail(offset, "the metadata key " + in_quotes(name) + " a second time", "each key once");
    }
  } while (reader.accept(','));
  reader.expect('}', "',' or '}' in __metadata__");
  return metadata;
}

std::vector<WrittenEntry> parse_tree(JsonReader& reader, std::map<std::string, std::string>& metadata) {
  std::vector<WrittenEntry> written;
  bool has_metadata = false;
  reader.expect('{', "'{', with which the header begins");
  if (!reader.accept('}')) {
    do {
      const size_t offset = reader.offset();
      std::string name = reader.string("the name of a tensor");
      reader.expect(':', "':' after the name " + in_quotes(name));
      if (name == "__metadata__") {
        if (std::exchange(has_metadata, true))
          reader.fail(offset, "__metadata__ a second time", "each name once");
        metadata = parse_metadata(reader);
      } else {
        written.push_back({parse_entry(reader, std::move(name)), offset});
      }
    } while (reader.accept(','));
    reader.expect('}', "',' or '}' after a tensor");
  }
  if (!reader.at_end())
    reader.fail(reader.offset(), reader.found(), "only spaces after the header's last '}'");
  return written;
}

/// Bytes of a tensor, or nothing where 64 bits do not hold them. An empty tensor's other sizes count too: its
/// strides are made of them.
std::optional<size_t> size_in_bytes(const Entry& entry) {
  int64_t elements = 1, extent = 1;
  for (const int64_t size : entry.sizes) {
    if (__builtin_mul_overflow(extent, std::max<int64_t>(size, 1), &extent)) return std::nullopt;
    elements *= size;
  }
  int64_t bytes = 0;
  const auto element_size = static_cast<int64_t>(c10::elementSize(entry.dtype));
  if (__builtin_mul_overflow(extent, element_size, &bytes)) return std::nullopt;
  return static_cast<size_t>(elements * element_size);
}

void check_size(const JsonReader& reader, const WrittenEntry& written, size_t data_size) {
  const Entry& entry = written.entry;
  const std::string described = in_quotes(entry.name) + " of shape " + shape_text(entry.sizes) +
                                " and dtype " + std::string(safetensors_dtype_name(entry.dtype));
  const std::string offsets =
      "data_offsets [" + std::to_string(entry.begin) + ", " + std::to_string(entry.end) + "]";
  const auto bytes = size_in_bytes(entry);
  if (!bytes) reader.fail(written.offset, described, "a size that 64 bits can hold");
  if (entry.begin > entry.end) {
    reader.fail(written.offset, offsets + " of " + in_quotes(entry.name),
                "a begin that is not above the end");
  }
  if (entry.end - entry.begin != *bytes) {
    reader.fail(written.offset,
                offsets + " (" + std::to_string(entry.end - entry.begin) + " bytes) for " + described,
                std::to_string(*bytes) + " bytes");
  }
  if (entry.end > data_size) {
    reader.fail(written.offset,
                "a data section of " + std::to_string(data_size) + " bytes (the file is truncated)",
                "at least " + std::to_string(entry.end) + " bytes for " + in_quotes(entry.name));
  }
}

void check_names(const JsonReader& reader, const std::vector<WrittenEntry>& written) {
  std::vector<size_t> order(written.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t left, size_t right) {
    return written[left].entry.name < written[right].entry.name;
  });
  for (size_t i = 1; i < order.size(); ++i) {
    const WrittenEntry& later = written[order[i]];
    if (later.entry.name == written[order[i - 1]].entry.name) {
      reader.fail(later.offset, "the tensor " + in_quotes(later.entry.name) + " a second time",
                  "each name once");
    }
  }
}

void check_layout(const JsonReader& reader, std::vector<WrittenEntry>& written, size_t data_size,
                  size_t data_begin) {
  std::stable_sort(written.begin(), written.end(), [](const WrittenEntry& left, const WrittenEntry& right) {
    return std::pair(left.entry.begin, left.entry.end) < std::pair(right.entry.begin, right.entry.end);
  });
  size_t end = 0;
  for (const auto& [entry, offset] : written) {
    if (entry.begin != end) {
      reader.fail(offset,
                  std::string(entry.begin > end ? "a hole" : "an overlap") + ": " + in_quotes(entry.name) +
                      " begins at byte " + std::to_string(entry.begin) + " of the data section",
                  "byte " + std::to_string(end) + ", where the tensor before it ends");
    }
    end = entry.end;
  }
  if (end != data_size) {
    reader.fail(data_begin + end, std::to_string(data_size - end) + " bytes that belong to no tensor",
                "the end of the file");
  }
}

}  // namespace

SafetensorsHeader parse_safetensors_header(const std::filesystem::path& path, std::string_view file) {
  if (file.starts_with("version https://git-lfs")) {
    throw CheckpointError(path.string() +
                          " is a Git LFS pointer, not the file itself; fetch it with: git lfs pull");
  }
  const JsonReader no_header(path, {}, 0);
  if (file.size() < 8) {
    no_header.fail(0, "a file of " + std::to_string(file.size()) + " bytes",
                   "at least 8: the length of the header");
  }
  uint64_t length = 0;
  for (size_t i = 8; i-- > 0;) length = length << 8 | static_cast<unsigned char>(file[i]);
  if (length > kMaxSafetensorsHeader) {
    no_header.fail(0, "a header of " + std::to_string(length) + " bytes",
                   "at most " + std::to_string(kMaxSafetensorsHeader));
  }
  if (length > file.size() - 8) {
    no_header.fail(
        0, "a header of " + std::to_string(length) + " bytes in a file of " + std::to_string(file.size()),
        "a header that ends within the file (it may be truncated)");
  }
  const std::string_view text = file.substr(8, length);
  if (!text.starts_with('{')) {
    no_header.fail(8, text.empty() ? "an empty header" : JsonReader(path, text, 8).found(),
                   "'{', with which the header begins");
  }
  if (const size_t invalid = find_invalid_utf8(text); invalid != std::string_view::npos) {
    no_header.fail(8 + invalid, "bytes that are not UTF-8", "a header in UTF-8");
  }

  SafetensorsHeader header;
  header.data_begin = 8 + length;
  JsonReader reader(path, text, 8);
  std::vector<WrittenEntry> written = parse_tree(reader, header.metadata);
  const size_t data_size = file.size() - header.data_begin;
  check_names(reader, written);
  for (const auto& entry : written) check_size(reader, entry, data_size);
  check_layout(reader, written, data_size, header.data_begin);
  header.entries.reserve(written.size());
  for (auto& entry : written) header.entries.push_back(std::move(entry.entry));
  return header;
}

}  // namespace finetune
