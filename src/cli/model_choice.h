#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "finetune/model/encoder_config.h"

namespace finetune::cli {

/// A model that a run can start from.
struct ModelChoice {
  std::string name;                 ///< a folder, or a hub id
  std::filesystem::path directory;  ///< where it lies
  EncoderConfig encoder;
  bool has_weights = true;
};

/// The model in a folder, or of that hub id in the local Hugging Face cache. Throws `ConfigError` where there
/// is none, with the models that are there, and `CheckpointError` for one that is not known here.
ModelChoice find_model(const std::string& name);

/// The known encoders at hand: in the working directory, in its folders and those of models/, and in the
/// local Hugging Face cache.
std::vector<ModelChoice> models_at_hand();

}  // namespace finetune::cli
