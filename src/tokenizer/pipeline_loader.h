#pragma once

#include "pipeline_spec.h"
#include "tokenizer_directory.h"

namespace finetune {

/// Whether a tokenizer.json that is taken as it is has the components of BERT's WordPiece, which has a class
/// of its own here.
bool is_bert_pipeline(const nlohmann::json& tokenizer);

/// Reads a tokenizer of components in the way `choice` says. Throws `CheckpointError`.
PipelineSpec load_pipeline_spec(const TokenizerDirectory& directory, const TokenizerChoice& choice);

}  // namespace finetune
