#pragma once

#include <map>
#include <memory>
#include <string>

#include "finetune/batching/dataset.h"
#include "finetune/config/run_config.h"
#include "finetune/model/encoder_config.h"
#include "finetune/tasks/task.h"
#include "finetune/tokenizer/tokenizer.h"

namespace finetune {

/// Everything a run reads before it has a model.
struct Inputs {
  Json model_config;  ///< config.json as found
  EncoderConfig encoder;
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<Task> task;
  DeviceDataset train;
  std::map<std::string, DeviceDataset>
      validation;  ///< by file name where there are several, else "validation"
  std::map<std::string, DeviceDataset> test;
  std::string fingerprint;  ///< of the encoded training data
  Json description;         ///< rows, tokens, truncated rows a split: what the log and the header say
};

/// Reads and encodes the splits and puts them on `device`; the training rows stay on the host where
/// `data.residency` says so, or says `auto` and they are not small against what the device has free. Labels
/// are learned from the training rows unless configured. Throws `DeviceError` where a split that is to lie on
/// the device does not fit.
Inputs load_inputs(const RunConfig& config, c10::Device device);

}  // namespace finetune
