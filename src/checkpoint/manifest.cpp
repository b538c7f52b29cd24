#include "manifest.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

#include "finetune/core/error.h"
#include "finetune/core/file.h"
#include "finetune/core/hash.h"
#include "finetune/core/json.h"
#include "finetune/core/text.h"

namespace finetune {
namespace {

constexpr int kFormatVersion = 1;
constexpr size_t kReadBytes = size_t{1} << 20;

/// The bytes are one line of JSON and one with the checksum of that line, so that a damaged manifest is known
/// for one.
std::string with_checksum(const std::string& line) {
  Xxh3 hash;
  hash.update(line);
  return "{\"manifest\":" + line + ",\n\"xxh3\":\"" + hash.hex() + "\"}\n";
}

std::string xxh3_of(const std::filesystem::path& path, int descriptor) {
  const auto buffer = std::make_unique_for_overwrite<char[]>(kReadBytes);
  Xxh3 hash;
  while (true) {
    const ssize_t count = ::read(descriptor, buffer.get(), kReadBytes);
    if (count == 0) return hash.hex();
    if (count > 0) {
      hash.update(buffer.get(), static_cast<size_t>(count));
    } else if (errno != EINTR) {
      throw CheckpointError("cannot read " + path.string() + ": " + std::strerror(errno));
    }
  }
}

}  // namespace

std::string manifest_text(const Manifest& manifest) {
  Json files = Json::object();
  for (const auto& [name, digest] : manifest.files)
    files[name] = {{"size", digest.size}, {"xxh3", digest.xxh3}};
  const Json content = {{"format_version", kFormatVersion},
                        {"step", manifest.step},
                        {"is_best", manifest.is_best},
                        {"files", std::move(files)}};
  return with_checksum(content.dump());
}

Manifest read_manifest(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / kManifestFile;
  try {
    const std::string text = read_file(path);
    const Json content = Json::parse(text).at("manifest");
    if (const int version = content.at("format_version"); version != kFormatVersion) {
      throw CheckpointError(path.string() + " has format version " + std::to_string(version) + ", expected " +
                            std::to_string(kFormatVersion) +
                            "; read it with the version of finetune that wrote it");
    }
    if (with_checksum(content.dump()) != text) {
      throw CheckpointError(path.string() + " does not match the checksum in it: it is damaged");
    }
    Manifest manifest;
    manifest.step = content.at("step");
    manifest.is_best = content.at("is_best");
    for (const auto& [name, digest] : content.at("files").items()) {
      manifest.files[name] = {digest.at("size"), digest.at("xxh3")};
    }
    return manifest;
  } catch (const std::system_error& error) {
    throw CheckpointError(std::string(error.what()) + "; the folder holds no complete checkpoint");
  } catch (const Json::exception& error) {
    throw CheckpointError(path.string() + " is damaged: " + error.what());
  }
}

void verify_file(const std::filesystem::path& path, const FileDigest& expected) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) throw CheckpointError("cannot open " + path.string() + ": " + std::strerror(errno));
  const auto close_file = [](const int* opened) { ::close(*opened); };
  const std::unique_ptr<const int, decltype(close_file)> closer(&descriptor, close_file);
  struct stat info {};
  if (::fstat(descriptor, &info) != 0)
    throw CheckpointError("cannot stat " + path.string() + ": " + std::strerror(errno));
  if (static_cast<size_t>(info.st_size) != expected.size) {
    throw CheckpointError(path.string() + " has " + with_thousands(info.st_size) + " bytes, expected " +
                          with_thousands(static_cast<long long>(expected.size)));
  }
  ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_SEQUENTIAL);
  const std::string xxh3 = xxh3_of(path, descriptor);
  if (xxh3 != expected.xxh3) {
    throw CheckpointError(path.string() + " has the XXH3 checksum " + xxh3 + ", expected " + expected.xxh3 +
                          ": its bytes are not those that were written");
  }
}

}  // namespace finetune
