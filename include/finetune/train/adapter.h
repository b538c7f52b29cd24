#pragma once

#include <filesystem>

#include "finetune/config/run_config.h"
#include "finetune/model/classifier.h"
#include "finetune/tasks/task.h"

namespace finetune {

/// Replaces `directory` by the model's adapters and its head in PEFT's file format (adapter_config.json,
/// adapter_model.safetensors), which `PeftModel.from_pretrained` puts on the weights of `model.path`.
void save_adapter(const std::filesystem::path& directory, const RunConfig& config, const Classifier& model,
                  const Task& task);

/// Adds every adapter to the weight beside it, W + alpha / rank * B A, and makes B zero: the model computes
/// the same, without needing its adapters.
void merge_adapters(const std::vector<Parameter>& parameters, const LoraConfig& lora);

}  // namespace finetune
