#include "finetune/checkpoint/safetensors.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <numeric>
#include <system_error>

#include "finetune/core/error.h"
#include "safetensors_header.h"
#include "tensor_bytes.h"

namespace finetune {
namespace {

MappedFile map_or_throw(const std::filesystem::path& path) {
  try {
    return MappedFile(path);
  } catch (const std::system_error& error) {
    throw CheckpointError(error.what());
  }
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : path_(path), file_(map_or_throw(path)) {
  SafetensorsHeader header = parse_safetensors_header(path, file_.text());
  data_begin_ = header.data_begin;
  entries_ = std::move(header.entries);
  metadata_ = std::move(header.metadata);
  by_name_.resize(entries_.size());
  std::iota(by_name_.begin(), by_name_.end(), uint32_t{0});
  std::sort(by_name_.begin(), by_name_.end(),
            [this](uint32_t left, uint32_t right) { return entries_[left].name < entries_[right].name; });
}

const SafetensorsFile::Entry* SafetensorsFile::find(std::string_view name) const {
  const auto found = std::lower_bound(
      by_name_.begin(), by_name_.end(), name,
      [this](uint32_t index, std::string_view wanted) { return entries_[index].name < wanted; });
  return found != by_name_.end() && entries_[*found].name == name ? &entries_[*found] : nullptr;
}

std::span<const std::byte> SafetensorsFile::bytes(const Entry& entry) const {
  return file_.bytes().subspan(data_begin_ + entry.begin, entry.end - entry.begin);
}

void SafetensorsFile::read_into(const Entry& entry, const at::Tensor& destination) const {
  const std::string place = path_.string() + ": tensor '" + entry.name + "'";
  if (destination.sizes() != at::IntArrayRef(entry.sizes)) {
    throw CheckpointError(place + " has shape " + shape_text(entry.sizes) + ", expected " +
                          shape_text(destination.sizes()));
  }
  const bool convertible = c10::isFloatingType(entry.dtype) && c10::isFloatingType(destination.scalar_type());
  if (entry.dtype != destination.scalar_type() && !convertible) {
    throw CheckpointError(place + " has dtype " + std::string(safetensors_dtype_name(entry.dtype)) +
                          ", expected " + c10::toString(destination.scalar_type()) +
                          "; only floating dtypes are converted into each other");
  }
  fill_from_bytes(bytes(entry).data(), entry.dtype, destination);
}

}  // namespace finetune
