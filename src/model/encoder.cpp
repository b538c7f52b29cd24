#include "finetune/model/encoder.h"

#include "bert.h"
#include "finetune/core/error.h"
#include "finetune/core/text.h"

namespace finetune {
namespace {

struct Family {
  const char* model_type;
  std::unique_ptr<Encoder> (*make)(const EncoderConfig&, ParameterStore&);
};

constexpr Family kFamilies[] = {{"bert", make_bert}};

}  // namespace

std::unique_ptr<Encoder> make_encoder(const EncoderConfig& config, ParameterStore& store) {
  std::vector<std::string> known;
  for (const Family& family : kFamilies) {
    if (config.model_type == family.model_type) return family.make(config, store);
    known.emplace_back(family.model_type);
  }
  const auto near = nearest_name(config.model_type, known);
  throw CheckpointError("config.json: model_type '" + config.model_type +
                        "' is not supported; expected one of " + join_some(known, known.size()) +
                        (near ? "; did you mean '" + *near + "'?" : ""));
}

}  // namespace finetune
