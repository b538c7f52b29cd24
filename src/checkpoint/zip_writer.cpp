#include "zip_writer.h"

#include <c10/util/Exception.h>

#include <array>
#include <cstring>

namespace finetune {
namespace {

constexpr uint64_t kAlignment = 64;
constexpr uint64_t kLocalSize = 30;
constexpr uint64_t kElsewhere = 0xffffffff;  // in a 32-bit field: see the zip64 field
constexpr uint64_t kManyMembers = 0xffff;

/// kTables[0] is the usual table; the others go on from it, so that eight bytes are taken at once.
std::array<std::array<uint32_t, 256>, 8> crc_tables() {
  std::array<std::array<uint32_t, 256>, 8> tables{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0xedb88320U : 0);
    tables[0][i] = value;
  }
  for (size_t t = 1; t < 8; ++t) {
    for (size_t i = 0; i < 256; ++i)
      tables[t][i] = (tables[t - 1][i] >> 8) ^ tables[0][tables[t - 1][i] & 0xff];
  }
  return tables;
}

class Fields {
 public:
  Fields& u16(uint64_t value) { return number(value, 2); }
  Fields& u32(uint64_t value) { return number(value, 4); }
  Fields& u64(uint64_t value) { return number(value, 8); }
  Fields& bytes(std::string_view value) {
    text_ += value;
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  Fields& number(uint64_t value, int width) {
    for (int i = 0; i < width; ++i) text_ += static_cast<char>(value >> (8 * i));
    return *this;
  }
  std::string text_;
};

/// What local headers and directory entries have in common, from "version needed" to the sizes.
void put_common(Fields& fields, uint64_t size, uint32_t crc, bool zip64) {
  constexpr uint64_t kStored = 0, kFirstDay = 0x21;  // 1 January 1980: files do not depend on the time
  fields.u16(zip64 ? 45 : 20).u16(0).u16(kStored).u16(0).u16(kFirstDay).u32(crc);
  fields.u32(zip64 ? kElsewhere : size).u32(zip64 ? kElsewhere : size);
}

}  // namespace

void Crc32::update(const void* data, size_t size) {
  static const auto kTables = crc_tables();
  const auto* bytes = static_cast<const unsigned char*>(data);
  uint32_t crc = state_;
  for (; size >= 8; size -= 8, bytes += 8) {
    uint32_t low, high;
    std::memcpy(&low, bytes, 4);
    std::memcpy(&high, bytes + 4, 4);
    low ^= crc;
    crc = kTables[7][low & 0xff] ^ kTables[6][low >> 8 & 0xff] ^ kTables[5][low >> 16 & 0xff] ^
          kTables[4][low >> 24] ^ kTables[3][high & 0xff] ^ kTables[2][high >> 8 & 0xff] ^
          kTables[1][high >> 16 & 0xff] ^ kTables[0][high >> 24];
  }
  for (; size > 0; --size, ++bytes) crc = (crc >> 8) ^ kTables[0][(crc ^ *bytes) & 0xff];
  state_ = crc;
}

void ZipWriter::emit(std::string_view bytes) {
  sink_(bytes.data(), bytes.size());
  position_ += bytes.size();
}

void ZipWriter::add(const std::string& name, std::string_view content) {
  add(name, content.size(), [&](const Sink& sink) { sink(content.data(), content.size()); });
}

void ZipWriter::add(const std::string& name, uint64_t size, const Source& source) {
  Crc32 crc;
  source([&](const void* data, size_t count) { crc.update(data, count); });
  const bool zip64 = size >= kElsewhere;
  Fields extra;
  if (zip64) extra.u16(1).u16(16).u64(size).u64(size);
  // torch's padding field, "FB", brings the data to its boundary.
  const uint64_t unpadded = position_ + kLocalSize + name.size() + extra.text().size() + 4;
  const uint64_t padding = (kAlignment - unpadded % kAlignment) % kAlignment;
  extra.u16(0x4246).u16(padding).bytes(std::string(padding, 'Z'));

  members_.push_back({name, size, position_, crc.value()});
  Fields header;
  header.u32(0x04034b50);
  put_common(header, size, crc.value(), zip64);
  header.u16(name.size()).u16(extra.text().size()).bytes(name).bytes(extra.text());
  emit(header.text());
  const uint64_t begin = position_;
  source([&](const void* data, size_t count) { emit({static_cast<const char*>(data), count}); });
  TORCH_CHECK(position_ - begin == size, "zip member ", name, " gave ", position_ - begin,
              " bytes, expected ", size);
}

void ZipWriter::finish() {
  const uint64_t begin = position_;
  for (const Member& member : members_) {
    const bool large = member.size >= kElsewhere, far = member.offset >= kElsewhere;
    Fields values;
    if (large) values.u64(member.size).u64(member.size);
    if (far) values.u64(member.offset);
    Fields extra;
    if (large || far) extra.u16(1).u16(values.text().size()).bytes(values.text());
    Fields entry;
    entry.u32(0x02014b50).u16(large || far ? 45 : 20);
    put_common(entry, member.size, member.crc, large);
    entry.u16(member.name.size()).u16(extra.text().size()).u16(0).u16(0).u16(0).u32(0);
    entry.u32(far ? kElsewhere : member.offset).bytes(member.name).bytes(extra.text());
    emit(entry.text());
  }
  const uint64_t size = position_ - begin, count = members_.size();
  const bool zip64 = begin >= kElsewhere || size >= kElsewhere || count >= kManyMembers;
  if (zip64) {
    const uint64_t end64 = position_;
    Fields end;
    end.u32(0x06064b50).u64(44).u16(45).u16(45).u32(0).u32(0).u64(count).u64(count).u64(size).u64(begin);
    end.u32(0x07064b50).u32(0).u64(end64).u32(1);
    emit(end.text());
  }
  const uint64_t short_count = zip64 ? kManyMembers : count;
  Fields end;
  end.u32(0x06054b50).u16(0).u16(0).u16(short_count).u16(short_count);
  end.u32(zip64 ? kElsewhere : size).u32(zip64 ? kElsewhere : begin).u16(0);
  emit(end.text());
}

}  // namespace finetune
