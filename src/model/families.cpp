#include <string>
#include <vector>

#include "bert.h"
#include "finetune/core/error.h"
#include "finetune/core/text.h"
#include "finetune/model/encoder.h"
#include "finetune/model/head.h"
#include "heads.h"

namespace finetune {
namespace {

using MakeHead = std::unique_ptr<Head> (*)(const EncoderConfig&, int64_t num_outputs, ParameterStore&);

struct Family {
  const char* model_type;
  const char* class_name;  ///< what transformers' classes begin with
  std::unique_ptr<Encoder> (*make_encoder)(const EncoderConfig&, ParameterStore&);
  MakeHead make_sequence_head;
  MakeHead make_token_head;
};

constexpr Family kFamilies[] = {{"bert", "Bert", make_bert, make_bert_sequence_head, make_token_head}};

const Family& family_of(const std::string& model_type) {
  std::vector<std::string> known;
  for (const Family& family : kFamilies) {
    if (model_type == family.model_type) return family;
    known.emplace_back(family.model_type);
  }
  const auto near = nearest_name(model_type, known);
  throw CheckpointError("config.json: model_type '" + model_type + "' is not supported; expected one of " +
                        join_some(known, known.size()) + (near ? "; did you mean '" + *near + "'?" : ""));
}

}  // namespace

std::unique_ptr<Encoder> make_encoder(const EncoderConfig& config, ParameterStore& store) {
  return family_of(config.model_type).make_encoder(config, store);
}

std::unique_ptr<Head> make_head(const EncoderConfig& config, const HeadConfig& head, ParameterStore& store) {
  const Family& family = family_of(config.model_type);
  const MakeHead make = head.kind == HeadKind::kSequence ? family.make_sequence_head : family.make_token_head;
  return make(config, head.num_outputs, store);
}

std::string architecture_name(const EncoderConfig& config, HeadKind kind) {
  return family_of(config.model_type).class_name +
         std::string(kind == HeadKind::kSequence ? "ForSequenceClassification" : "ForTokenClassification");
}

}  // namespace finetune
