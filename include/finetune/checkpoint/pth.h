#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "finetune/checkpoint/named_tensor.h"

namespace finetune {

struct PickleValue;

/// A file of Python's `torch.save` (.pth, .pt, .bin): the zip format, or the one of before 2020. Everything
/// in it is checked when it is opened, nothing in it is run, and nothing is allocated on its word: memory is
/// at most a small multiple of the pickle's own bytes. Tensors are views into the mapped file and live as
/// long as this object.
class PthFile {
 public:
  /// Throws `CheckpointError` for what is no such file (an HTML page, an empty or cut file, the tar format of
  /// 2017), is damaged, or asks for Python objects.
  explicit PthFile(const std::filesystem::path& path);
  ~PthFile();
  PthFile(PthFile&&) noexcept;
  PthFile& operator=(PthFile&&) noexcept;

  const std::filesystem::path& path() const;
  const PickleValue& root() const;

  /// A tensor of the file on the host, as it lies there: shared storages stay shared, strides stay.
  /// Read-only.
  at::Tensor tensor(const PickleValue& value) const;

  /// The tensors of a state dict in its order; entries of other kinds are left out.
  NamedTensors tensors(const PickleValue& dict) const;

  /// The state dict of a checkpoint: under `net`, `model`, `state_dict` or `model_state_dict`, else the root
  /// itself where it is a dict of tensors. Throws `CheckpointError` with the keys found where there is none.
  const PickleValue& state_dict() const;

 private:
  struct Content;
  std::unique_ptr<Content> content_;
};

}  // namespace finetune
