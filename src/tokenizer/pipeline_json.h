#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "pipeline_spec.h"

namespace finetune {

/// Reads model/vocab, and what else of the model decides ids, of a model that must be of `kind`. Throws
/// `CheckpointError` naming `place`.
void parse_model(const nlohmann::json& model, ModelKind kind, const std::string& place, PipelineSpec& spec);

/// The kind that model/type names. Throws `CheckpointError` where it is not supported.
ModelKind parse_model_kind(const nlohmann::json& model, const std::string& place);

/// The bytes of the first character map of a normaliser, as the reference looks for it; empty where there is
/// none.
std::string find_charsmap(const nlohmann::json& normalizer, const std::string& place);

}  // namespace finetune
