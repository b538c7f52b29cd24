#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "post_processor.h"

namespace finetune {

/// Reads the post_processor of a tokenizer.json. Throws `CheckpointError` naming `place` and what is not
/// supported.
PostProcessor parse_post_processor(const nlohmann::json& component, const std::string& place);

/// Throws `CheckpointError` unless the token types of each template are zeros, then ones.
void check_segments(const RowTemplate& rows, const std::string& place);

}  // namespace finetune
