#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "finetune/config/run_config.h"

namespace finetune {

/// A name without what DataParallel (`module.`) and torch.compile (`_orig_mod.`) put before it.
std::string unwrapped_name(std::string_view name);

/// A name as today's models have it: unwrapped, renamed by `rules`, and LayerNorm's old names gamma and beta
/// replaced.
std::string modern_name(std::string_view name, const std::vector<Rename>& rules = {});

/// A name and the shape it stands for.
struct NamedShape {
  std::string name;
  std::vector<int64_t> sizes;
};

/// Rules that would give tensors `found` the names of parameters `wanted`, as far as shapes allow: each
/// replaces a prefix, and fits at least one tensor and contradicts none.
std::vector<Rename> suggest_renames(const std::vector<NamedShape>& found,
                                    const std::vector<NamedShape>& wanted);

/// `"rename": [["^fc[.]", "classifier."]]`, as it stands in a config's model section.
std::string to_text(const std::vector<Rename>& rules);

}  // namespace finetune
