#pragma once

#include <string>
#include <utility>
#include <vector>

#include "added_tokens.h"
#include "finetune/core/json.h"
#include "post_processor.h"
#include "vocabulary.h"

namespace finetune {

// Parts of the files that a tokenizer is saved in.

Json added_token_json(const AddedToken& token);

std::vector<AddedToken> by_id(std::vector<AddedToken> tokens);

/// A TemplateProcessing component.
Json row_template_json(const RowTemplate& rows);

/// A JSON object in the order of ids, written by hand: the objects of the JSON library would sort 30,000
/// keys, or search them one after another.
std::string vocabulary_json(const Vocabulary& vocabulary);

/// The text of special_tokens_map.json.
std::string special_tokens_map_json(const std::vector<std::pair<std::string, std::string>>& named_tokens);

}  // namespace finetune
