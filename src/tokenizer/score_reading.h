#pragma once

namespace finetune {

/// What the reference tokenizers take a score in a tokenizer.json for. Their parser (serde_json without exact
/// rounding) divides the number's digits by a power of ten, each rounded by itself, and so may end up at a
/// neighbour of the number written there. Ways to cut a word whose scores tie are decided by such a
/// neighbour.
///
/// score: the number as written, in the fewest digits that tell it apart.
double score_as_reference_reads(double score);

}  // namespace finetune
