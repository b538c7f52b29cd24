#include <system_error>

#include "durable.h"
#include "finetune/checkpoint/pretrained.h"
#include "finetune/core/error.h"
#include "finetune/core/file.h"
#include "finetune/core/log.h"
#include "manifest.h"
#include "safetensors_writer.h"

namespace finetune {
namespace {

namespace fs = std::filesystem;

/// Puts `fresh` in the place of `directory`; what was there is under `fresh` afterwards.
void swap_in(const fs::path& fresh, const fs::path& directory) {
  if (!fs::exists(fs::symlink_status(directory))) return fs::rename(fresh, directory);
  if (exchange(fresh, directory)) return;
  const fs::path old = fresh.string() + "-old";
  fs::rename(directory, old);
  try {
    fs::rename(fresh, directory);
  } catch (...) {
    std::error_code ignored;
    fs::rename(old, directory, ignored);
    throw;
  }
  fs::rename(old, fresh);
}

/// A config and the weights that it describes, under the names that they have in a format.
struct Contents {
  const char* config_file;
  const Json& config;
  const char* weights_file;
  const NamedTensors& weights;
};

void replace_directory(const fs::path& directory, const Contents& contents, const WriteExtra& write_extra) {
  const fs::path target = fs::absolute(directory / "").parent_path();  // without a slash at its end
  const SafetensorsPlan plan = plan_safetensors(contents.weights, {{"format", "pt"}});
  const std::string name = target.filename().string();
  try {
    create_directories_durably(target.parent_path());
    remove_stale_temporaries(target.parent_path(), name + "-");
    const TemporaryDirectory temporary(target.parent_path(), name);
    const fs::path fresh = temporary.path() / "fresh";
    fs::create_directory(fresh);
    write_text(fresh / contents.config_file, contents.config.dump(2) + "\n");
    write_planned(fresh / contents.weights_file, plan);
    if (write_extra) write_extra(fresh);
    sync_tree(fresh);
    swap_in(fresh, target);
    sync_directory(target.parent_path());
  } catch (const std::system_error& error) {
    throw CheckpointError("cannot write the model directory " + target.string() + ": " +
                          describe_write_failure(error, target.parent_path(), plan.size) +
                          "; free some space or choose another folder");
  }
}

}  // namespace

void export_model_directory(const fs::path& directory, const Json& model_config, const NamedTensors& weights,
                            const WriteExtra& write_extra) {
  replace_directory(directory, {"config.json", model_config, kModelFile, weights}, write_extra);
}

void export_adapter_directory(const fs::path& directory, const Json& adapter_config,
                              const NamedTensors& weights) {
  replace_directory(directory, {"adapter_config.json", adapter_config, "adapter_model.safetensors", weights},
                    nullptr);
}

}  // namespace finetune
