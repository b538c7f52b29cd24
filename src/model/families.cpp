#include "families.h"

#include <vector>

#include "finetune/core/error.h"
#include "finetune/core/text.h"
#include "heads.h"

namespace finetune {
namespace {

constexpr const Family* kFamilies[] = {&kBert,    &kRoberta, &kXlmRoberta, &kCamembert, &kDistilBert,
                                       &kElectra, &kAlbert,  &kMpnet,      &kDebertaV2, &kModernBert};

[[noreturn]] void refuse_masked_lm(const Family& family) {
  std::vector<std::string> known;
  for (const Family* other : kFamilies) {
    if (other->make_masked_lm_head != nullptr) known.emplace_back(other->model_type);
  }
  throw ConfigError(std::string("task.type: found \"masked_lm\" for the model_type '") + family.model_type +
                    "', expected one of " + join_some(known, known.size()) +
                    "; take such an encoder, or another task");
}

}  // namespace

const Family& family_of(const std::string& model_type) {
  std::vector<std::string> known;
  for (const Family* family : kFamilies) {
    if (model_type == family->model_type) return *family;
    known.emplace_back(family->model_type);
  }
  const auto near = nearest_name(model_type, known);
  throw CheckpointError("config.json: model_type '" + model_type + "' is not supported; expected one of " +
                        join_some(known, known.size()) + (near ? "; did you mean '" + *near + "'?" : ""));
}

std::unique_ptr<Encoder> make_encoder(const EncoderConfig& config, ParameterStore& store) {
  return family_of(config.model_type).make_encoder(config, store);
}

std::unique_ptr<Head> make_head(const EncoderConfig& config, const HeadConfig& head, ParameterStore& store) {
  const Family& family = family_of(config.model_type);
  if (head.kind == HeadKind::kSequence && config.pooling != Pooling::kPooler) {
    return make_pooling_head(config, head.num_outputs, store);
  }
  switch (head.kind) {
    case HeadKind::kSequence:
      return family.make_sequence_head(config, head.num_outputs, store);
    case HeadKind::kToken:
      return family.make_token_head(config, head.num_outputs, store);
    case HeadKind::kMaskedLm:
      break;
  }
  if (family.make_masked_lm_head == nullptr) refuse_masked_lm(family);
  return family.make_masked_lm_head(config, head.num_outputs, store);
}

std::string architecture_name(const EncoderConfig& config, HeadKind kind) {
  const std::string name = family_of(config.model_type).class_name;
  if (kind == HeadKind::kToken) return name + "ForTokenClassification";
  if (kind == HeadKind::kMaskedLm) return name + "ForMaskedLM";
  return name + (config.pooling == Pooling::kPooler ? "ForSequenceClassification" : "Model");
}

}  // namespace finetune
