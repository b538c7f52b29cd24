#pragma once

#include "aligned_text.h"

namespace finetune {

enum class NormalizationForm { kNfc, kNfd, kNfkc, kNfkd };

/// Unicode normalisation (Unicode Standard Annex 15), by the reference's tables and with its origins.
void normalize_unicode(AlignedText& text, NormalizationForm form);

}  // namespace finetune
