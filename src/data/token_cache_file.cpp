#include "token_cache_file.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "finetune/core/file.h"
#include "finetune/core/hash.h"

namespace finetune {
namespace {

constexpr char kMagic[8] = {'F', 'T', 'T', 'O', 'K', 'E', 'N', 'S'};
constexpr uint32_t kVersion = 2;
constexpr uint32_t kByteOrder = 0x01020304;
constexpr size_t kAlignment = 64;
constexpr size_t kHashDigits = 32;

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t byte_order;
  uint64_t file_size;
  uint64_t index_size;
  char key[kHashDigits];
  char checksum[kHashDigits];  ///< over the whole file, these bytes taken as zero
};
static_assert(sizeof(Header) == 96);

size_t aligned(size_t offset) { return (offset + kAlignment - 1) / kAlignment * kAlignment; }

std::string_view bytes_of(const Header& header) {
  return {reinterpret_cast<const char*>(&header), sizeof(header)};
}

/// A file's contents as pieces of memory, in order.
class Pieces {
 public:
  void add(std::string_view bytes) {
    pieces_.push_back(bytes);
    size_ += bytes.size();
  }
  void align() {
    static constexpr char kZeros[kAlignment] = {};
    add({kZeros, aligned(size_) - size_});
  }
  size_t size() const { return size_; }
  const std::vector<std::string_view>& all() const { return pieces_; }

 private:
  std::vector<std::string_view> pieces_;
  size_t size_ = 0;
};

Json describe(const EncodedDataset& dataset, size_t& offset) {
  Json arrays = Json::object();
  EncodedDataset::visit_arrays(dataset, [&](const char* name, const auto& values) {
    arrays[name] = {offset, values.size()};
    offset = aligned(offset + values.num_bytes());
  });
  return Json{{"truncated", dataset.num_truncated},
              {"replaced", dataset.num_replaced},
              {"fingerprint", dataset.fingerprint},
              {"arrays", std::move(arrays)}};
}

/// Offsets count from the end of the index.
std::string make_index(const EncodedSplits& splits) {
  size_t offset = 0;
  Json index{{"facts", splits.facts}, {"splits", Json::object()}};
  for (const auto& [name, dataset] : splits.splits) index["splits"][name] = describe(dataset, offset);
  return index.dump();
}

Header read_header(std::string_view text, const std::string& key) {
  Header header;
  if (text.size() < sizeof(header)) throw BadCacheFile("it is cut off");
  std::memcpy(&header, text.data(), sizeof(header));
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0)
    throw BadCacheFile("it is another kind of file");
  if (header.byte_order != kByteOrder)
    throw BadCacheFile("it was written by a machine of another byte order");
  if (header.version != kVersion) throw BadCacheFile("it was written by another version of this program");
  if (std::string_view(header.key, kHashDigits) != key) throw BadCacheFile("it belongs to other data");
  if (header.file_size != text.size()) throw BadCacheFile("it is cut off");
  if (header.index_size > text.size() - sizeof(header)) throw BadCacheFile("it is damaged");
  return header;
}

/// The arrays of a split, checked against the bytes that are there.
EncodedDataset map_dataset(const Json& description, std::string_view data,
                           const std::shared_ptr<const void>& owner) {
  EncodedDataset dataset;
  dataset.num_truncated = description.at("truncated").get<int64_t>();
  dataset.num_replaced = description.at("replaced").get<int64_t>();
  dataset.fingerprint = description.at("fingerprint").get<std::string>();
  EncodedDataset::visit_arrays(dataset, [&](const char* name, auto& values) {
    using Value = typename std::decay_t<decltype(values)>::value_type;
    const Json& place = description.at("arrays").at(name);
    const auto offset = place.at(0).get<size_t>(), count = place.at(1).get<size_t>();
    const bool inside =
        offset % kAlignment == 0 && offset <= data.size() && count <= (data.size() - offset) / sizeof(Value);
    if (!inside) throw BadCacheFile("it is damaged");
    values = {{reinterpret_cast<const Value*>(data.data() + offset), count}, owner};
  });
  return dataset;
}

}  // namespace

std::string write_cache_file(const std::filesystem::path& path, const std::string& key,
                             const EncodedSplits& splits) {
  const std::string index = make_index(splits);
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.version = kVersion;
  header.byte_order = kByteOrder;
  header.index_size = index.size();
  std::memcpy(header.key, key.data(), kHashDigits);

  Pieces pieces;
  pieces.add(bytes_of(header));
  pieces.add(index);
  pieces.align();
  for (const auto& [name, dataset] : splits.splits) {
    EncodedDataset::visit_arrays(dataset, [&](const char*, const auto& values) {
      pieces.add({reinterpret_cast<const char*>(values.data()), values.num_bytes()});
      pieces.align();
    });
  }
  header.file_size = pieces.size();
  Xxh3 hash;
  for (const std::string_view piece : pieces.all()) hash.update(piece);
  const std::string checksum = hash.hex();
  std::memcpy(header.checksum, checksum.data(), kHashDigits);
  write_file_atomically(path, pieces.all());
  return checksum;
}

CacheFile::CacheFile(const std::filesystem::path& path, const std::string& key)
    : file_(std::make_shared<const MappedFile>(path)) {
  const Header header = read_header(file_->text(), key);
  index_size_ = header.index_size;
  checksum_.assign(header.checksum, kHashDigits);
}

void CacheFile::verify() const {
  const std::string_view text = file_->text();
  Header header;
  std::memcpy(&header, text.data(), sizeof(header));
  std::memset(header.checksum, 0, kHashDigits);
  Xxh3 hash;
  hash.update(bytes_of(header));
  hash.update(text.substr(sizeof(header)));
  if (hash.hex() != checksum_) throw BadCacheFile("it is damaged");
}

EncodedSplits CacheFile::splits() const {
  const std::string_view text = file_->text();
  EncodedSplits result;
  try {
    const Json index = Json::parse(text.substr(sizeof(Header), index_size_));
    const std::string_view data = text.substr(std::min(text.size(), aligned(sizeof(Header) + index_size_)));
    result.facts = index.at("facts");
    for (const auto& [name, description] : index.at("splits").items()) {
      result.splits.emplace(name, map_dataset(description, data, file_));
    }
  } catch (const Json::exception&) {
    throw BadCacheFile("it is damaged");
  }
  return result;
}

}  // namespace finetune
