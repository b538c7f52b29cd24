#include "finetune/checkpoint/pth.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <cstring>
#include <map>
#include <system_error>

#include "finetune/core/error.h"
#include "finetune/core/file.h"
#include "finetune/core/text.h"
#include "pickle.h"
#include "zip_archive.h"

namespace finetune {
namespace {

using Kind = PickleValue::Kind;
using Storages = std::map<std::string, std::string_view>;  ///< key -> bytes

constexpr std::string_view kZipStart = "PK\x03\x04";
constexpr std::string_view kPickleStart = "\x80";
/// What the format of before 2020 begins with: torch.serialization.MAGIC_NUMBER, little-endian.
constexpr std::string_view kMagic = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
constexpr int64_t kLegacyProtocol = 1001;
constexpr size_t kTarMark = 257;  ///< where a tar archive says "ustar"

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& what) {
  throw CheckpointError(path.string() + ": " + what);
}

/// Names what people pass for a checkpoint now and then.
[[noreturn]] void refuse_unknown(const std::filesystem::path& path, std::string_view bytes) {
  if (bytes.empty())
    refuse(path, "empty file, expected a checkpoint of torch.save. Copy or download it again");
  const size_t text = bytes.find_first_not_of(" \t\r\n");
  if (text != std::string_view::npos && bytes[text] == '<')
    refuse(path,
           "this is an HTML page, not a checkpoint: the download was answered by an error or login page");
  if (bytes.size() > kTarMark + 5 && bytes.substr(kTarMark, 5) == "ustar")
    refuse(path, "this is torch's tar format of 2017 or older; load it with an old torch and save it again");
  if (bytes.starts_with("version https://git-lfs"))
    refuse(path, "this is a Git LFS pointer, not the file itself; run git lfs pull");
  refuse(path, "no file of torch.save: it begins neither as a zip archive nor as a pickle");
}

struct Container {
  Pickle pickle;
  Storages storages;
};

Container read_zip_format(const std::filesystem::path& path, std::string_view bytes) {
  auto members = read_zip(bytes, path.string());
  constexpr std::string_view kPickleName = "/data.pkl";
  std::string root;
  for (const auto& [name, content] : members) {
    if (!name.ends_with(kPickleName)) continue;
    if (!root.empty()) refuse(path, "two pickles, '" + root + "' and '" + name + "', expected one");
    root = name.substr(0, name.size() - kPickleName.size());
  }
  if (root.empty()) refuse(path, "a zip archive without data.pkl, so not of torch.save");
  const auto order = members.find(root + "/byteorder");
  if (order != members.end() && order->second != "little")
    refuse(path, "saved on a big-endian machine, which is not read; save it again on a little-endian one");
  Container container{
      Pickle(members.at(root + std::string(kPickleName)), path.string() + ": " + root + "/data.pkl"), {}};
  const std::string prefix = root + "/data/";
  for (const auto& [name, content] : members) {
    if (name.starts_with(prefix)) container.storages.emplace(name.substr(prefix.size()), content);
  }
  return container;
}

/// Three pickles (magic number, protocol, system), the object, the keys of its storages, and the storages:
/// the number of elements, then the elements.
Container read_legacy_format(const std::filesystem::path& path, std::string_view bytes) {
  size_t position = 0;
  const auto next = [&](const char* what) {
    Pickle pickle(bytes.substr(position), path.string() + ": " + what);
    position += pickle.size();
    return pickle;
  };
  const Pickle magic = next("the magic number");
  if (!magic.root().is(Kind::kString) || magic.root().text != kMagic)
    refuse(path, "a pickle, but not of torch.save: the magic number is not there");
  const Pickle protocol = next("the protocol");
  if (!protocol.root().is(Kind::kInt) || protocol.root().integer != kLegacyProtocol)
    refuse(path, "of another protocol than torch.save's " + std::to_string(kLegacyProtocol));
  next("the description of the system");
  Container container{next("the object"), {}};
  const Pickle keys = next("the list of storages");
  std::map<std::string, size_t> element_size;
  for (const PickleValue& value : container.pickle.values()) {
    if (value.is(Kind::kStorage)) element_size[value.text] = c10::elementSize(value.dtype);
  }
  for (const PickleValue* key : keys.root().items) {
    const auto found = element_size.find(key->text);
    uint64_t numel = 0;
    if (found == element_size.end()) refuse(path, "a storage '" + key->text + "' that no tensor uses");
    if (bytes.size() - position < sizeof(numel))
      refuse(path, "incomplete file: storage '" + key->text + "' is missing");
    std::memcpy(&numel, bytes.data() + position, sizeof(numel));
    position += sizeof(numel);
    if (numel > (bytes.size() - position) / found->second)
      refuse(path, "incomplete file: storage '" + key->text + "' ends early (byte " +
                       std::to_string(position) + ")");
    const size_t size = static_cast<size_t>(numel) * found->second;
    container.storages.emplace(key->text, bytes.substr(position, size));
    position += size;
  }
  return container;
}

Container read_container(const std::filesystem::path& path, std::string_view bytes) {
  if (bytes.starts_with(kZipStart)) return read_zip_format(path, bytes);
  if (bytes.starts_with(kPickleStart)) return read_legacy_format(path, bytes);
  refuse_unknown(path, bytes);
}

MappedFile map_file(const std::filesystem::path& path) {
  try {
    return std::filesystem::file_size(path) == 0 ? MappedFile() : MappedFile(path);
  } catch (const std::system_error& error) {
    throw CheckpointError(error.what());
  }
}

}  // namespace

struct PthFile::Content {
  std::filesystem::path path;
  MappedFile file;
  Container container;
  std::map<std::pair<std::string, at::ScalarType>, at::Tensor>
      opened;  ///< storages, by key and number format

  explicit Content(const std::filesystem::path& from)
      : path(from), file(map_file(from)), container(read_container(from, file.text())) {
    for (const PickleValue& value : container.pickle.values()) {
      if (value.is(Kind::kStorage)) check_storage(value);
    }
  }

  /// All of a storage as one tensor. torch.save's zip files align storages, older ones do not, and kernels
  /// want elements aligned: such a storage is copied, once.
  const at::Tensor& storage(const PickleValue& wanted) {
    const auto [place, is_new] = opened.try_emplace({wanted.text, wanted.dtype});
    if (!is_new) return place->second;
    const std::string_view bytes = container.storages.at(wanted.text);
    const size_t element = c10::elementSize(wanted.dtype);
    const auto numel = static_cast<int64_t>(bytes.size() / element);
    if (reinterpret_cast<uintptr_t>(bytes.data()) % element == 0) {
      place->second =
          at::from_blob(const_cast<char*>(bytes.data()), {numel}, at::TensorOptions(wanted.dtype));
    } else {
      place->second = at::empty({numel}, at::TensorOptions(wanted.dtype));
      std::memcpy(place->second.mutable_data_ptr(), bytes.data(), static_cast<size_t>(numel) * element);
    }
    return place->second;
  }

  void check_storage(const PickleValue& storage) const {
    const auto found = container.storages.find(storage.text);
    if (found == container.storages.end())
      refuse(path, "the storage '" + storage.text + "' of a tensor is missing");
    const size_t element = c10::elementSize(storage.dtype);
    if (static_cast<uint64_t>(storage.numel) > found->second.size() / element) {
      refuse(path, "the storage '" + storage.text + "' holds " + std::to_string(found->second.size()) +
                       " bytes, expected " + std::to_string(storage.numel) + " elements of " +
                       std::to_string(element));
    }
  }
};

PthFile::PthFile(const std::filesystem::path& path) : content_(std::make_unique<Content>(path)) {}
PthFile::~PthFile() = default;
PthFile::PthFile(PthFile&&) noexcept = default;
PthFile& PthFile::operator=(PthFile&&) noexcept = default;

const std::filesystem::path& PthFile::path() const { return content_->path; }
const PickleValue& PthFile::root() const { return content_->container.pickle.root(); }

at::Tensor PthFile::tensor(const PickleValue& value) const {
  TORCH_CHECK(value.is(Kind::kTensor), "not a tensor of the file");
  const auto options = at::TensorOptions(value.dtype);
  const std::string_view bytes = content_->container.storages.at(value.storage->text);
  // An empty storage may lie anywhere, even at no address.
  if (bytes.empty()) return at::empty(value.sizes, options);
  return content_->storage(*value.storage).as_strided(value.sizes, value.strides, value.offset);
}

NamedTensors PthFile::tensors(const PickleValue& dict) const {
  NamedTensors tensors;
  for (size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const PickleValue &key = *dict.items[i], &value = *dict.items[i + 1];
    if (key.is(Kind::kString) && value.is(Kind::kTensor)) tensors.push_back({key.text, tensor(value)});
  }
  return tensors;
}

const PickleValue& PthFile::state_dict() const {
  std::vector<std::string> keys;
  bool has_tensors = false;
  for (const char* name : {"net", "model", "state_dict", "model_state_dict"}) {
    const PickleValue* found = root().find(name);
    if (found != nullptr && found->is(Kind::kDict)) return *found;
  }
  if (root().is(Kind::kDict)) {
    for (size_t i = 0; i + 1 < root().items.size(); i += 2) {
      has_tensors = has_tensors || root().items[i + 1]->is(Kind::kTensor);
      if (root().items[i]->is(Kind::kString)) keys.push_back(root().items[i]->text);
    }
  }
  if (has_tensors) return root();
  refuse(path(), "holds no state dict: found " + (keys.empty() ? "no keys" : "the keys " + join_some(keys)) +
                     ", expected tensors by name, or a dict of them under net, model, state_dict or "
                     "model_state_dict");
}

}  // namespace finetune
