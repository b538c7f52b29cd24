#include "finetune/train/adapter.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "finetune/checkpoint/pretrained.h"
#include "finetune/model/projection.h"

namespace finetune {
namespace {

std::string without_end(const std::string& name, const std::string& end) {
  return name.substr(0, name.size() - end.size());
}

/// The module of transformers' model that holds a parameter of the head: "classifier", "bert.pooler".
std::string head_module(const std::string& name, const std::string& base_prefix) {
  const size_t begin = name.starts_with(base_prefix) ? base_prefix.size() : 0;
  return name.substr(0, name.find('.', begin));
}

Json task_type_of(HeadKind kind) {
  if (kind == HeadKind::kMaskedLm) return nullptr;
  return kind == HeadKind::kToken ? "TOKEN_CLS" : "SEQ_CLS";
}

Json adapter_config(const RunConfig& config, const Classifier& model, const Task& task) {
  const LoraConfig& lora = *config.model.lora;
  std::set<std::string> targets, head;
  for (const Parameter& parameter : model.parameters()) {
    if (parameter.name.ends_with(kAdapterA)) {
      targets.insert(without_end(parameter.name, kAdapterA));
    } else if (model.is_of_head(parameter.name)) {
      head.insert(head_module(parameter.name, model.base_prefix()));
    }
  }
  return Json{{"peft_type", "LORA"},
              {"task_type", task_type_of(task.head().kind)},
              {"base_model_name_or_path", config.model.path.string()},
              {"r", lora.rank},
              {"lora_alpha", lora.alpha},
              {"lora_dropout", lora.dropout},
              {"target_modules", targets},
              {"modules_to_save", head},
              {"bias", "none"},
              {"fan_in_fan_out", false},
              {"inference_mode", true}};
}

}  // namespace

void save_adapter(const std::filesystem::path& directory, const RunConfig& config, const Classifier& model,
                  const Task& task) {
  NamedTensors tensors;
  for (const Parameter& parameter : model.parameters()) {
    if (is_adapter(parameter.name) || model.is_of_head(parameter.name)) {
      tensors.push_back({"base_model.model." + parameter.name, parameter.value});
    }
  }
  export_adapter_directory(directory, adapter_config(config, model, task), tensors);
}

void merge_adapters(const std::vector<Parameter>& parameters, const LoraConfig& lora) {
  const at::NoGradGuard no_grad;
  std::map<std::string, const Parameter*> by_name;
  for (const Parameter& parameter : parameters) by_name[parameter.name] = &parameter;
  for (const Parameter& a : parameters) {
    if (!a.name.ends_with(kAdapterA)) continue;
    const std::string layer = without_end(a.name, kAdapterA);
    at::Tensor b = by_name.at(layer + kAdapterB)->value, weight = by_name.at(layer + ".weight")->value;
    weight.addmm_(b, a.value, /*beta=*/1.0, /*alpha=*/lora.alpha / static_cast<double>(lora.rank));
    b.zero_();
  }
  refresh_copies(parameters);
}

}  // namespace finetune
