#include "pickle.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <optional>
#include <unordered_map>

#include "finetune/core/error.h"

namespace finetune {

using Kind = PickleValue::Kind;

const PickleValue* PickleValue::find(std::string_view key) const {
  if (kind != Kind::kDict) return nullptr;
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    if (items[i]->is(Kind::kString) && items[i]->text == key) return items[i + 1];
  }
  return nullptr;
}

namespace {

/// Everything that a pickle may ask to call. The other names that it may hold, those of storages, are only
/// marks of a number format.
enum class Callable { kOrderedDict, kTensor, kOldTensor, kParameter, kSize };

std::optional<Callable> callable_of(const std::string& name) {
  static const std::map<std::string, Callable, std::less<>> kAllowed{
      {"collections.OrderedDict", Callable::kOrderedDict},
      {"torch._utils._rebuild_tensor_v2", Callable::kTensor},
      {"torch._utils._rebuild_tensor", Callable::kOldTensor},
      {"torch._utils._rebuild_parameter", Callable::kParameter},
      {"torch.Size", Callable::kSize}};
  const auto found = kAllowed.find(name);
  if (found == kAllowed.end()) return std::nullopt;
  return found->second;
}

const std::map<std::string, at::ScalarType, std::less<>>& storage_types() {
  static const std::map<std::string, at::ScalarType, std::less<>> kTypes{
      {"torch.FloatStorage", at::kFloat}, {"torch.DoubleStorage", at::kDouble},
      {"torch.HalfStorage", at::kHalf},   {"torch.BFloat16Storage", at::kBFloat16},
      {"torch.LongStorage", at::kLong},   {"torch.IntStorage", at::kInt},
      {"torch.ShortStorage", at::kShort}, {"torch.CharStorage", at::kChar},
      {"torch.ByteStorage", at::kByte},   {"torch.BoolStorage", at::kBool}};
  return kTypes;
}

std::optional<at::ScalarType> storage_type(const std::string& name) {
  const auto found = storage_types().find(name);
  if (found == storage_types().end()) return std::nullopt;
  return found->second;
}

/// Elements that a tensor may have whatever its storage has: a stride of 0 repeats them (`expand`), and
/// whoever copies such a tensor allocates them all.
constexpr int64_t kMostRepeated = 4096;

/// More dimensions than LibTorch allows are no tensor.
constexpr size_t kMaxDimensions = 64;

}  // namespace

std::string storage_type_name(at::ScalarType dtype) {
  for (const auto& [name, type] : storage_types()) {
    if (type == dtype) return name.substr(name.find('.') + 1);
  }
  throw CheckpointError(std::string("a tensor of dtype ") + c10::toString(dtype) +
                        " cannot be written into a .pth; convert it to float32 first");
}

/// Python's unpickling machine (protocols 2 to 5: Lib/pickle.py, Lib/pickletools.py), less everything that
/// would run code.
class PickleMachine {
 public:
  PickleMachine(std::string_view bytes, const std::string& place, Pickle& out)
      : bytes_(bytes), place_(place), out_(out) {}

  void run() {
    while (true) {
      start_ = position_;
      const char code = take(1).front();
      if (code == '.') break;
      if (!scalar(code) && !container(code) && !memo(code) && !object(code)) {
        fail("has the opcode " + std::to_string(static_cast<unsigned char>(code)) +
             ", which no checkpoint of protocol 2 to 5 needs");
      }
    }
    if (stack_.size() != 1 || !marks_.empty()) fail("ends with a stack that does not hold one value");
    out_.root_ = stack_.back();
    out_.size_ = position_;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw CheckpointError(place_ + ": the pickle " + what + " (byte " + std::to_string(start_) +
                          "); the file is damaged, or no checkpoint");
  }

  std::string_view take(uint64_t count) {
    if (count > bytes_.size() - position_) fail("ends in the middle of a value");
    const auto piece = bytes_.substr(position_, static_cast<size_t>(count));
    position_ += static_cast<size_t>(count);
    return piece;
  }
  template <typename T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string_view line() {
    const size_t end = bytes_.find('\n', position_);
    if (end == std::string_view::npos) fail("ends in the middle of a name");
    const auto text = take(end - position_);
    take(1);
    return text;
  }

  PickleValue& make(Kind kind) {
    PickleValue& value = out_.values_.emplace_back();
    value.kind = kind;
    return value;
  }
  void push(const PickleValue& value) { stack_.push_back(const_cast<PickleValue*>(&value)); }
  PickleValue& push_new(Kind kind) {
    PickleValue& value = make(kind);
    push(value);
    return value;
  }
  size_t bottom() const { return marks_.empty() ? 0 : marks_.back(); }
  PickleValue& top() {
    if (stack_.size() <= bottom()) fail("takes a value from an empty stack");
    return *stack_.back();
  }
  PickleValue& pop() {
    PickleValue& value = top();
    stack_.pop_back();
    return value;
  }
  /// The values since the last mark, which goes with them.
  std::vector<const PickleValue*> pop_mark() {
    if (marks_.empty()) fail("takes values up to a mark that is not there");
    std::vector<const PickleValue*> values(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()),
                                           stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return values;
  }

  void push_string(uint64_t size) { push_new(Kind::kString).text = take(size); }
  void push_integer(int64_t value) { push_new(Kind::kInt).integer = value; }
  /// Little-endian two's complement; one beyond 64 bits (torch's magic number) is kept as its bytes.
  void push_long(uint64_t size) {
    const std::string_view digits = take(size);
    if (size > 8) {
      push_new(Kind::kString).text = digits;
      return;
    }
    uint64_t value = 0;
    for (size_t i = 0; i < digits.size(); ++i)
      value |= static_cast<uint64_t>(static_cast<unsigned char>(digits[i])) << (8 * i);
    const bool negative = size > 0 && (static_cast<unsigned char>(digits.back()) & 0x80) != 0;
    if (negative && size < 8) value |= ~uint64_t{0} << (8 * size);
    push_integer(static_cast<int64_t>(value));
  }
  void push_float() {
    std::array<char, 8> swapped{};
    const std::string_view digits = take(8);
    std::reverse_copy(digits.begin(), digits.end(), swapped.begin());
    push_new(Kind::kFloat).real = std::bit_cast<double>(swapped);
  }

  bool scalar(char code);
  bool container(char code);
  bool memo(char code);
  bool object(char code);
  void push_tuple(std::vector<const PickleValue*> items) { push_new(Kind::kTuple).items = std::move(items); }
  void push_small_tuple(size_t count);
  void append(PickleValue& list, const std::vector<const PickleValue*>& items);
  void set_items(PickleValue& dict, const std::vector<const PickleValue*>& items);
  void remember(uint64_t index) { memo_[index] = &top(); }
  void recall(uint64_t index);
  void push_global(std::string_view module, std::string_view name);
  void reduce();
  void build();
  void persistent_storage();
  const PickleValue& tensor(const PickleValue& arguments, bool has_more);
  std::vector<int64_t> integers(const PickleValue& tuple);
  const PickleValue& argument(const PickleValue& arguments, size_t index, Kind kind);
  [[noreturn]] void refuse_call(const PickleValue& callable) const;

  std::string_view bytes_;
  const std::string& place_;
  Pickle& out_;
  size_t position_ = 0;
  size_t start_ = 0;  ///< of the opcode at hand
  std::vector<PickleValue*> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint64_t, PickleValue*> memo_;
};

bool PickleMachine::scalar(char code) {
  switch (code) {
    case 'N':
      push_new(Kind::kNone);
      return true;
    case '\x88':
    case '\x89':
      push_new(Kind::kBool).integer = code == '\x88';
      return true;
    case 'J':
      push_integer(number<int32_t>());
      return true;
    case 'K':
      push_integer(number<uint8_t>());
      return true;
    case 'M':
      push_integer(number<uint16_t>());
      return true;
    case '\x8a':
      push_long(number<uint8_t>());
      return true;
    case '\x8b':
      push_long(number<uint32_t>());
      return true;
    case 'G':
      push_float();
      return true;
    case 'X':
    case 'T':
    case 'B':
      push_string(number<uint32_t>());
      return true;
    case '\x8c':
    case 'U':
    case 'C':
      push_string(number<uint8_t>());
      return true;
    case '\x8d':
    case '\x8e':
      push_string(number<uint64_t>());
      return true;
    default:
      return false;
  }
}

void PickleMachine::push_small_tuple(size_t count) {
  std::vector<const PickleValue*> items(count);
  for (size_t i = count; i-- > 0;) items[i] = &pop();
  push_tuple(std::move(items));
}

void PickleMachine::append(PickleValue& list, const std::vector<const PickleValue*>& items) {
  if (!list.is(Kind::kList)) fail("appends to what is no list");
  list.items.insert(list.items.end(), items.begin(), items.end());
}

void PickleMachine::set_items(PickleValue& dict, const std::vector<const PickleValue*>& items) {
  if (!dict.is(Kind::kDict) || items.size() % 2 != 0) fail("puts items into what is no dict");
  dict.items.insert(dict.items.end(), items.begin(), items.end());
}

bool PickleMachine::container(char code) {
  switch (code) {
    case '(':
      marks_.push_back(stack_.size());
      return true;
    case ']':
      push_new(Kind::kList);
      return true;
    case '}':
      push_new(Kind::kDict);
      return true;
    case ')':
      push_new(Kind::kTuple);
      return true;
    case 't':
      push_tuple(pop_mark());
      return true;
    case '\x85':
    case '\x86':
    case '\x87':
      push_small_tuple(static_cast<size_t>(code - '\x85') + 1);
      return true;
    case 'a': {
      const PickleValue& item = pop();
      append(top(), {&item});
      return true;
    }
    case 'e': {
      const auto items = pop_mark();
      append(top(), items);
      return true;
    }
    case 's': {
      const PickleValue& value = pop();
      const PickleValue& key = pop();
      set_items(top(), {&key, &value});
      return true;
    }
    case 'u': {
      const auto items = pop_mark();
      set_items(top(), items);
      return true;
    }
    default:
      return false;
  }
}

void PickleMachine::recall(uint64_t index) {
  const auto found = memo_.find(index);
  if (found == memo_.end()) fail("recalls value " + std::to_string(index) + ", which it never remembered");
  stack_.push_back(found->second);
}

bool PickleMachine::memo(char code) {
  switch (code) {
    case 'q':
      remember(number<uint8_t>());
      return true;
    case 'r':
      remember(number<uint32_t>());
      return true;
    case '\x94':
      remember(memo_.size());
      return true;
    case 'h':
      recall(number<uint8_t>());
      return true;
    case 'j':
      recall(number<uint32_t>());
      return true;
    case '0':
      pop();
      return true;
    case '1':
      pop_mark();
      return true;
    case '2':
      push(top());
      return true;
    case '\x80':
      if (const auto protocol = number<uint8_t>(); protocol < 2 || protocol > 5)
        fail("is of protocol " + std::to_string(protocol) + ", expected 2 to 5");
      return true;
    case '\x95':
      number<uint64_t>();  // a frame's size, of use to readers of streams
      return true;
    default:
      return false;
  }
}

bool PickleMachine::object(char code) {
  switch (code) {
    case 'c': {
      const auto module = line();
      push_global(module, line());
      return true;
    }
    case '\x93': {
      const PickleValue& name = pop();
      const PickleValue& module = pop();
      if (!name.is(Kind::kString) || !module.is(Kind::kString)) fail("names a global by what is no text");
      push_global(module.text, name.text);
      return true;
    }
    case 'R':
      reduce();
      return true;
    case '\x81':
    case '\x92':
      if (code == '\x92') pop();  // keyword arguments
      pop();
      refuse_call(pop());
    case 'b':
      build();
      return true;
    case 'Q':
      persistent_storage();
      return true;
    default:
      return false;
  }
}

void PickleMachine::push_global(std::string_view module, std::string_view name) {
  push_new(Kind::kGlobal).text = std::string(module) + "." + std::string(name);
}

void PickleMachine::refuse_call(const PickleValue& callable) const {
  if (!callable.is(Kind::kGlobal)) fail("calls what is no function");
  throw CheckpointError(place_ + ": asks for a Python object of '" + callable.text + "' (byte " +
                        std::to_string(start_) +
                        "). Only tensors, numbers, texts, lists and dicts are read, and nothing in a file is "
                        "ever run. If it is a whole model, saved by torch.save(model), save "
                        "model.state_dict() instead");
}

const PickleValue& PickleMachine::argument(const PickleValue& arguments, size_t index, Kind kind) {
  if (index >= arguments.items.size() || !arguments.items[index]->is(kind))
    fail("calls a function with other arguments than torch.save writes");
  return *arguments.items[index];
}

std::vector<int64_t> PickleMachine::integers(const PickleValue& tuple) {
  std::vector<int64_t> values;
  for (const PickleValue* item : tuple.items) {
    if (!item->is(Kind::kInt) || item->integer < 0)
      fail("holds a size or stride that is no number from 0 on");
    values.push_back(item->integer);
  }
  return values;
}

const PickleValue& PickleMachine::tensor(const PickleValue& arguments, bool has_more) {
  if (arguments.items.size() < (has_more ? 6U : 4U)) fail("describes a tensor by too few values");
  const PickleValue& storage = argument(arguments, 0, Kind::kStorage);
  PickleValue& tensor = make(Kind::kTensor);
  tensor.storage = &storage;
  tensor.dtype = storage.dtype;
  tensor.numel = storage.numel;
  tensor.offset = argument(arguments, 1, Kind::kInt).integer;
  tensor.sizes = integers(argument(arguments, 2, Kind::kTuple));
  tensor.strides = integers(argument(arguments, 3, Kind::kTuple));
  if (tensor.sizes.size() != tensor.strides.size() || tensor.sizes.size() > kMaxDimensions)
    fail("describes a tensor of " + std::to_string(tensor.sizes.size()) + " sizes and " +
         std::to_string(tensor.strides.size()) + " strides");
  bool empty = false;
  int64_t last = tensor.offset;  // the element that lies farthest
  bool outside = tensor.offset < 0;
  int64_t count = 1;
  bool too_many = false;
  for (size_t i = 0; i < tensor.sizes.size(); ++i) {
    too_many = __builtin_mul_overflow(count, std::max<int64_t>(tensor.sizes[i], 1), &count) || too_many;
    empty = empty || tensor.sizes[i] == 0;
    int64_t reach = 0;
    outside = outside ||
              __builtin_mul_overflow(std::max<int64_t>(tensor.sizes[i] - 1, 0), tensor.strides[i], &reach) ||
              __builtin_add_overflow(last, reach, &last);
  }
  if (outside || (!empty && last >= storage.numel))
    fail("describes a tensor that reaches beyond its storage of " + std::to_string(storage.numel) +
         " elements");
  if (too_many || count > std::max(storage.numel, kMostRepeated))
    fail("describes a tensor of more elements than its storage of " + std::to_string(storage.numel) + " has");
  return tensor;
}

void PickleMachine::reduce() {
  const PickleValue& arguments = pop();
  const PickleValue& callable = pop();
  const auto what = callable.is(Kind::kGlobal) ? callable_of(callable.text) : std::nullopt;
  if (!what) refuse_call(callable);
  if (!arguments.is(Kind::kTuple)) fail("calls a function with what is no tuple");
  switch (*what) {
    case Callable::kOrderedDict: {
      PickleValue& dict = push_new(Kind::kDict);
      if (arguments.items.empty()) return;
      for (const PickleValue* pair : argument(arguments, 0, Kind::kList).items) {
        if (pair->items.size() != 2) fail("makes a dict of what are no pairs");
        dict.items.insert(dict.items.end(), pair->items.begin(), pair->items.end());
      }
      return;
    }
    case Callable::kTensor:
    case Callable::kOldTensor:
      return push(tensor(arguments, *what == Callable::kTensor));
    case Callable::kParameter:
      return push(argument(arguments, 0, Kind::kTensor));
    case Callable::kSize:
      return push(argument(arguments, 0, Kind::kTuple));
  }
}

/// Attributes of a dict (a state dict's `_metadata`) carry nothing that is needed.
void PickleMachine::build() {
  pop();
  if (!top().is(Kind::kDict)) fail("sets attributes of what is no dict");
}

/// ("storage", type, key, location, elements) and in files of before 2020 a view of it.
void PickleMachine::persistent_storage() {
  const PickleValue& id = pop();
  if (!id.is(Kind::kTuple) || id.items.size() < 5 || argument(id, 0, Kind::kString).text != "storage")
    fail("refers to something outside that is no storage");
  if (id.items.size() > 5 && !id.items[5]->is(Kind::kNone))
    fail("refers to a part of a storage, as files of 2018 did; load and save it with a newer torch");
  const std::string& type = argument(id, 1, Kind::kGlobal).text;
  const auto dtype = storage_type(type);
  if (!dtype) fail("has a storage of type " + type + ", which is not read");
  PickleValue& storage = push_new(Kind::kStorage);
  storage.dtype = *dtype;
  storage.text = argument(id, 2, Kind::kString).text;
  storage.numel = argument(id, 4, Kind::kInt).integer;
  if (storage.numel < 0) fail("has a storage of a negative size");
}

Pickle::Pickle(std::string_view bytes, const std::string& place) { PickleMachine(bytes, place, *this).run(); }

}  // namespace finetune
