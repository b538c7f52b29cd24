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

}  // namespace

void export_model_directory(const fs::path& directory, const Json& model_config, const NamedTensors& weights,
                            const WriteExtra& write_extra) {
  const fs::path target = fs::absolute(directory / "").parent_path();  // without a slash at its end
  const SafetensorsPlan plan = plan_safetensors(weights, {{"format", "pt"}});
  const std::string name = target.filename().string();
  try {
    create_directories_durably(target.parent_path());
    remove_stale_temporaries(target.parent_path(), name + "-");
    const TemporaryDirectory temporary(target.parent_path(), name);
    const fs::path fresh = temporary.path() / "fresh";
    fs::create_directory(fresh);
    write_text(fresh / "config.json", model_config.dump(2) + "\n");
    write_planned(fresh / kModelFile, plan);
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

}  // namespace finetune
