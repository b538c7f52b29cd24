#include "safetensors_writer.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <system_error>

#include "durable.h"
#include "finetune/core/error.h"
#include "finetune/core/hash.h"
#include "finetune/core/json.h"
#include "finetune/core/text.h"
#include "tensor_bytes.h"

namespace finetune {
namespace {

std::vector<const NamedTensor*> sorted_by_name(const NamedTensors& tensors) {
  std::vector<const NamedTensor*> order;
  order.reserve(tensors.size());
  for (const auto& named : tensors) order.push_back(&named);
  std::sort(order.begin(), order.end(),
            [](const NamedTensor* left, const NamedTensor* right) { return left->name < right->name; });
  for (size_t i = 1; i < order.size(); ++i) {
    if (order[i]->name == order[i - 1]->name) {
      throw CheckpointError("two tensors are named '" + order[i]->name + "'; a name is used once in a file");
    }
  }
  return order;
}

void check_writable(const NamedTensor& named) {
  const std::string what = "cannot write the tensor '" + named.name + "': ";
  if (!named.tensor.defined()) throw CheckpointError(what + "it is undefined");
  if (named.tensor.layout() != at::kStrided)
    throw CheckpointError(what + "its layout is sparse, expected dense");
  if (safetensors_dtype_name(named.tensor.scalar_type()).empty()) {
    throw CheckpointError(what + "its dtype is " + c10::toString(named.tensor.scalar_type()) +
                          ", expected one of " + safetensors_dtype_names());
  }
  if (find_invalid_utf8(named.name) != std::string_view::npos || named.name == "__metadata__") {
    throw CheckpointError(what + "a name must be UTF-8 and not __metadata__");
  }
}

}  // namespace

SafetensorsPlan plan_safetensors(const NamedTensors& tensors,
                                 const std::map<std::string, std::string>& metadata) {
  SafetensorsPlan plan;
  plan.order = sorted_by_name(tensors);
  for (const auto* named : plan.order) check_writable(*named);
  std::stable_sort(plan.order.begin(), plan.order.end(),
                   [](const NamedTensor* left, const NamedTensor* right) {
                     return safetensors_dtype_rank(left->tensor.scalar_type()) <
                            safetensors_dtype_rank(right->tensor.scalar_type());
                   });

  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  size_t end = 0;
  std::string text = header.dump();
  text.pop_back();
  for (const auto* named : plan.order) {
    const size_t begin = end;
    end += named->tensor.nbytes();
    const Json entry = {{"dtype", safetensors_dtype_name(named->tensor.scalar_type())},
                        {"shape", named->tensor.sizes().vec()},
                        {"data_offsets", {begin, end}}};
    // Appended as text: an ordered_json object looks through all its keys at each insertion.
    if (text.size() > 1) text += ",";
    text.append(Json(named->name).dump()).append(":").append(entry.dump());
  }
  text += "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');
  for (size_t i = 0; i < 8; ++i) plan.header.push_back(static_cast<char>(text.size() >> (8 * i) & 0xFF));
  plan.header += text;
  plan.size = plan.header.size() + end;
  return plan;
}

FileDigest write_planned(const std::filesystem::path& path, const SafetensorsPlan& plan) {
  OutputFile file(path);
  Xxh3 hash;
  const auto sink = [&](const void* data, size_t size) {
    hash.update(data, size);
    file.write(data, size);
  };
  sink(plan.header.data(), plan.header.size());
  for (const auto* named : plan.order) stream_bytes(named->tensor, sink);
  file.sync();
  file.close();
  return {plan.size, hash.hex()};
}

FileDigest write_text(const std::filesystem::path& path, const std::string& text) {
  OutputFile file(path);
  Xxh3 hash;
  hash.update(text);
  file.write(text);
  file.sync();
  file.close();
  return {text.size(), hash.hex()};
}

FileDigest write_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                             const std::map<std::string, std::string>& metadata) {
  const SafetensorsPlan plan = plan_safetensors(tensors, metadata);
  try {
    return write_planned(path, plan);
  } catch (const std::system_error& error) {
    throw CheckpointError(describe_write_failure(error, path.parent_path(), plan.size) +
                          "; free some space or choose another folder");
  }
}

std::string tensors_sha256(const NamedTensors& tensors) {
  Sha256 hash;
  for (const auto* named : sorted_by_name(tensors)) {
    hash.update(named->name);
    stream_bytes(named->tensor, [&](const void* data, size_t size) { hash.update(data, size); });
  }
  return hash.hex();
}

}  // namespace finetune
