#include <ATen/ops/scalar_tensor.h>

#include <string>
#include <system_error>
#include <vector>

#include "durable.h"
#include "finetune/checkpoint/python_checkpoint.h"
#include "finetune/core/error.h"
#include "finetune/core/file.h"
#include "pickle_writer.h"
#include "tensor_bytes.h"
#include "zip_writer.h"

namespace finetune {
namespace {

namespace fs = std::filesystem;

constexpr char kRoot[] = "archive/";  ///< torch's name for a file without one

/// The pickle, and the tensors that it refers to: storage data/N is the N-th.
class CheckpointPickle {
 public:
  explicit CheckpointPickle(const PythonCheckpoint& checkpoint) {
    if (checkpoint.weights_key.empty()) {
      put_weights(checkpoint.weights);
    } else {
      pickle_.begin_dict();
      pickle_.text(checkpoint.weights_key);
      put_weights(checkpoint.weights);
      if (checkpoint.optimizer) {
        pickle_.text("optimizer");
        put_optimizer(*checkpoint.optimizer);
      }
      if (checkpoint.epoch) put_integer("epoch", *checkpoint.epoch);
      pickle_.end_dict();
    }
    text_ = pickle_.finish();
  }

  const std::string& text() const { return text_; }
  const std::vector<at::Tensor>& storages() const { return storages_; }
  size_t size() const {
    size_t bytes = text_.size();
    for (const at::Tensor& tensor : storages_) bytes += tensor.nbytes();
    return bytes;
  }

 private:
  void put_integer(const char* key, int64_t value) {
    pickle_.text(key);
    pickle_.integer(value);
  }
  void put_flag(const char* key, bool value) {
    pickle_.text(key);
    pickle_.boolean(value);
  }
  void put_real(const char* key, const std::optional<double>& value) {
    if (!value) return;
    pickle_.text(key);
    pickle_.real(*value);
  }

  void put_tensor(const at::Tensor& tensor) {
    pickle_.tensor(std::to_string(storages_.size()), tensor.scalar_type(), tensor.sizes());
    storages_.push_back(tensor);
  }

  void put_weights(const NamedTensors& weights) {
    pickle_.begin_dict();
    for (const auto& [name, tensor] : weights) {
      pickle_.text(name);
      put_tensor(tensor);
    }
    pickle_.end_dict();
  }

  void put_optimizer(const AdamState& optimizer) {
    pickle_.begin_dict();
    pickle_.text("state");
    pickle_.begin_dict();
    int64_t id = 0;
    for (const AdamGroup& group : optimizer.groups) {
      for (const std::string& name : group.names) {
        const auto moments = optimizer.moments.find(name);
        if (moments != optimizer.moments.end()) put_moments(id, moments->second);
        ++id;
      }
    }
    pickle_.end_dict();
    pickle_.text("param_groups");
    pickle_.begin_list();
    id = 0;
    for (const AdamGroup& group : optimizer.groups) put_group(group, id);
    pickle_.end_list();
    pickle_.end_dict();
  }

  void put_moments(int64_t id, const AdamMoments& moments) {
    pickle_.integer(id);
    pickle_.begin_dict();
    pickle_.text("step");
    put_tensor(at::scalar_tensor(moments.step, at::kFloat));
    pickle_.text("exp_avg");
    put_tensor(moments.exp_avg);
    pickle_.text("exp_avg_sq");
    put_tensor(moments.exp_avg_sq);
    if (moments.max_exp_avg_sq.defined()) {
      pickle_.text("max_exp_avg_sq");
      put_tensor(moments.max_exp_avg_sq);
    }
    pickle_.end_dict();
  }

  /// The keys that torch.optim.AdamW of version 2.11 writes.
  void put_group(const AdamGroup& group, int64_t& id) {
    pickle_.begin_dict();
    put_real("lr", group.learning_rate);
    put_real("initial_lr", group.peak_learning_rate);
    if (group.beta1 && group.beta2) {
      pickle_.text("betas");
      pickle_.begin_tuple();
      pickle_.real(*group.beta1);
      pickle_.real(*group.beta2);
      pickle_.end_tuple();
    }
    put_real("eps", group.eps);
    put_real("weight_decay", group.weight_decay);
    put_flag("amsgrad", group.amsgrad.value_or(false));
    for (const char* key : {"maximize", "capturable", "differentiable"}) put_flag(key, false);
    for (const char* key : {"foreach", "fused"}) {
      pickle_.text(key);
      pickle_.none();
    }
    if (group.decoupled) put_flag("decoupled_weight_decay", *group.decoupled);
    pickle_.text("param_names");
    pickle_.begin_list();
    for (const std::string& name : group.names) pickle_.text(name);
    pickle_.end_list();
    pickle_.text("params");
    pickle_.begin_list();
    for (size_t i = 0; i < group.names.size(); ++i) pickle_.integer(id++);
    pickle_.end_list();
    pickle_.end_dict();
  }

  PickleWriter pickle_;
  std::string text_;
  std::vector<at::Tensor> storages_;
};

void write_archive(const fs::path& path, const CheckpointPickle& pickle) {
  OutputFile file(path);
  ZipWriter zip([&](const void* data, size_t size) { file.write(data, size); });
  const std::string root = kRoot;
  zip.add(root + "data.pkl", pickle.text());
  zip.add(root + ".format_version", "1");
  zip.add(root + ".storage_alignment", "64");
  zip.add(root + "byteorder", "little");
  size_t number = 0;
  for (const at::Tensor& tensor : pickle.storages()) {
    zip.add(root + "data/" + std::to_string(number++), tensor.nbytes(), [&](const ZipWriter::Sink& sink) {
      if (tensor.numel() > 0) stream_bytes(tensor, sink);
    });
  }
  zip.add(root + "version", "3\n");
  zip.finish();
  file.sync();
  file.close();
}

}  // namespace

void write_python_checkpoint(const fs::path& path, const PythonCheckpoint& checkpoint) {
  const CheckpointPickle pickle(checkpoint);
  const fs::path folder = fs::absolute(path).parent_path();
  try {
    create_directories_durably(folder);
    const TemporaryDirectory temporary(folder, path.filename().string());
    const fs::path fresh = temporary.path() / "archive";
    write_archive(fresh, pickle);
    fs::rename(fresh, path);
    sync_directory(folder);
  } catch (const std::system_error& error) {
    throw CheckpointError("cannot write " + path.string() + ": " +
                          describe_write_failure(error, folder, pickle.size()) +
                          "; free some space or choose another place");
  }
}

}  // namespace finetune
