#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace finetune {

/// A value of a pickle, as far as checkpoints have them. Nothing of Python is ever run: what a file asks to
/// call is on the list in pickle.cpp, or the file is refused.
struct PickleValue {
  enum class Kind { kNone, kBool, kInt, kFloat, kString, kList, kTuple, kDict, kGlobal, kStorage, kTensor };

  Kind kind = Kind::kNone;
  int64_t integer = 0;                    ///< kInt, kBool
  double real = 0;                        ///< kFloat
  std::string text;                       ///< kString; kGlobal: "module.name"; kStorage: its key in the file
  std::vector<const PickleValue*> items;  ///< kList, kTuple; kDict: key, value, key, value ...

  // kStorage; a tensor has its storage's, too.
  at::ScalarType dtype = at::kFloat;
  int64_t numel = 0;  ///< elements of the storage
  // kTensor.
  const PickleValue* storage = nullptr;
  int64_t offset = 0;  ///< in elements
  std::vector<int64_t> sizes, strides;

  bool is(Kind wanted) const { return kind == wanted; }
  /// The value under a string key of a dict; null where there is none.
  const PickleValue* find(std::string_view key) const;
};

/// The name of torch's storage class of a dtype ("FloatStorage"). Throws `CheckpointError` where there is
/// none.
std::string storage_type_name(at::ScalarType dtype);

/// One pickle: what it holds, and where it ends.
class Pickle {
 public:
  /// Reads one pickle from the beginning of `bytes`. `place` begins every message ("x.pth:
  /// archive/data.pkl"). Memory is bounded by the number of bytes. Throws `CheckpointError` with the byte
  /// offset.
  Pickle(std::string_view bytes, const std::string& place);

  const PickleValue& root() const { return *root_; }
  size_t size() const { return size_; }  ///< bytes read
  const std::deque<PickleValue>& values() const { return values_; }

 private:
  friend class PickleMachine;

  std::deque<PickleValue> values_;  ///< owns every value, so cycles and depth do no harm
  const PickleValue* root_ = nullptr;
  size_t size_ = 0;
};

}  // namespace finetune
