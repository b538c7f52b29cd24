#include "pickle_writer.h"

#include <array>
#include <bit>
#include <limits>

#include "pickle.h"

namespace finetune {

void PickleWriter::integer(int64_t value) {
  if (value >= std::numeric_limits<int32_t>::min() && value <= std::numeric_limits<int32_t>::max()) {
    out_ += 'J';
    little_endian(static_cast<int32_t>(value));
  } else {
    out_ += std::string("\x8a\x08", 2);
    little_endian(value);
  }
}

void PickleWriter::real(double value) {
  out_ += 'G';
  const auto bits = std::bit_cast<uint64_t>(value);
  for (int shift = 56; shift >= 0; shift -= 8) out_ += static_cast<char>(bits >> shift);
}

void PickleWriter::text(std::string_view value) {
  out_ += 'X';
  little_endian(static_cast<uint32_t>(value.size()));
  out_ += value;
}

void PickleWriter::global(std::string_view module, std::string_view name) {
  out_.append("c").append(module).append("\n").append(name).append("\n");
}

void PickleWriter::tensor(const std::string& key, at::ScalarType dtype, c10::IntArrayRef sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t numel = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = numel;
    numel *= sizes[i];
  }
  const auto tuple = [&](c10::IntArrayRef values) {
    begin_tuple();
    for (const int64_t value : values) integer(value);
    end_tuple();
  };
  global("torch._utils", "_rebuild_tensor_v2");
  begin_tuple();
  begin_tuple();
  text("storage");
  global("torch", storage_type_name(dtype));
  text(key);
  text("cpu");
  integer(numel);
  end_tuple();
  out_ += 'Q';
  integer(0);
  tuple(sizes);
  tuple(strides);
  boolean(false);
  global("collections", "OrderedDict");
  out_ += ")R";
  end_tuple();
  out_ += 'R';
}

}  // namespace finetune
