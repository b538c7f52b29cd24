#include "finetune/report/event_file.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <cmath>

namespace finetune {
namespace {

static_assert(std::endian::native == std::endian::little, "the format's numbers are little-endian");

constexpr std::string_view kPrefix = "events.out.tfevents.";

/// The bytes of a number, as both formats have them.
template <typename T>
std::string bytes_of(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

// ---- Protocol buffers: the few kinds of fields that an Event needs
// (https://protobuf.dev/programming-guides/encoding) ----

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes += static_cast<char>(value);
}

enum class WireType { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

std::string field(int number, WireType type, std::string_view content) {
  return varint(static_cast<uint64_t>(number) << 3 | static_cast<uint64_t>(type)).append(content);
}

std::string bytes_field(int number, std::string_view content) {
  return field(number, WireType::kBytes, varint(content.size())).append(content);
}

// Numbers of fields in event.proto and summary.proto.
constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
constexpr int kSummaryValue = 1, kTag = 1, kSimpleValue = 2;
constexpr int kStatus = 1;
constexpr uint64_t kStart = 1;

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Of this moment, machine and process, so that no two runs share one; TensorBoard reads them in their order.
std::filesystem::path file_name() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0 || host[0] == '\0') host = {'h', 'o', 's', 't'};
  const auto microseconds = static_cast<int64_t>(wall_seconds() * 1e6);
  return std::string(kPrefix) + std::to_string(microseconds / 1000000) + "." +
         std::to_string(microseconds % 1000000 + 1000000).substr(1) + "." + host.data() + "." +
         std::to_string(::getpid());
}

uint32_t masked_crc32c(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return std::rotr(crc, 15) + 0xa282ead8U;
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static const auto table = [] {
    std::array<uint32_t, 256> result{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0x82f63b78U : 0U);
      result[i] = value;
    }
    return result;
  }();
  uint32_t crc = ~0U;
  for (const char c : bytes) crc = (crc >> 8) ^ table[(crc ^ static_cast<unsigned char>(c)) & 0xffU];
  return ~crc;
}

std::string tf_record(std::string_view payload) {
  const std::string length = bytes_of(static_cast<uint64_t>(payload.size()));
  return length + bytes_of(masked_crc32c(length)) + std::string(payload) + bytes_of(masked_crc32c(payload));
}

EventFile::EventFile(const std::filesystem::path& folder, std::optional<int64_t> first_step)
    : file_(folder / file_name()) {
  append(0, bytes_field(kFileVersion, "brain.Event:2"));
  if (first_step)
    append(*first_step, bytes_field(kSessionLog, field(kStatus, WireType::kVarint, varint(kStart))));
}

void EventFile::append(int64_t step, std::string_view content) {
  std::string event = field(kWallTime, WireType::kFixed64, bytes_of(wall_seconds()));
  if (step != 0) event += field(kStep, WireType::kVarint, varint(static_cast<uint64_t>(step)));
  file_.write(tf_record(event.append(content)));
}

void EventFile::write(std::string_view event, const Json& fields) {
  if (event != "train" && event != "epoch" && event != "eval") return;
  const std::string group = event == "eval" ? fields.value("split", "validation") : std::string(event);
  std::string summary;
  for (const auto& [name, value] : fields.items()) {
    if (!value.is_number() || name == "step" || (name == "epoch" && event == "epoch")) continue;
    const auto number = value.get<float>();
    if (!std::isfinite(number)) continue;
    summary += bytes_field(kSummaryValue, bytes_field(kTag, group + "/" + name) +
                                              field(kSimpleValue, WireType::kFixed32, bytes_of(number)));
  }
  append(fields.value("step", int64_t{0}), bytes_field(kSummary, summary));
}

void remove_event_files(const std::filesystem::path& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().filename().string().starts_with(kPrefix)) std::filesystem::remove(entry.path(), error);
  }
}

}  // namespace finetune
