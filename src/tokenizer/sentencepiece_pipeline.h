#pragma once

#include "pipeline_spec.h"
#include "sentencepiece_file.h"

namespace finetune {

/// The tokenizer that a SentencePiece model describes by itself, for directories whose class says nothing
/// about it: `SpmConverter.build_tokenizer_from_spm_proto` of the reference. `legacy` puts a blank's mark
/// before every text between added tokens, not before the first only.
void set_sentencepiece_pipeline(const SentencePieceFile& file, bool legacy, PipelineSpec& spec);

/// Control pieces (special), then with `user_defined` the user-defined ones (not special): what the reference
/// adds as tokens.
std::vector<AddedToken> sentencepiece_tokens(const SentencePieceFile& file, bool user_defined);

}  // namespace finetune
