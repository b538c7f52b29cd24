#include "families.h"

#include <vector>

#include "finetune/core/error.h"
#include "finetune/core/text.h"
#include "heads.h"

namespace finetune {
namespace {

constexpr const Family* kFamilies[] = {&kBert,    &kRoberta, &kXlmRoberta, &kCamembert, &kDistilBert,
                                       &kElectra, &kAlbert,  &kMpnet,      &kDebertaV2, &kModernBert};

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
  const MakeHead make = head.kind == HeadKind::kSequence ? family.make_sequence_head : family.make_token_head;
  return make(config, head.num_outputs, store);
}

std::string architecture_name(const EncoderConfig& config, HeadKind kind) {
  const std::string name = family_of(config.model_type).class_name;
  if (kind == HeadKind::kToken) return name + "ForTokenClassification";
  return name + (config.pooling == Pooling::kPooler ? "ForSequenceClassification" : "Model");
}

}  // namespace finetune
