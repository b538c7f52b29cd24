#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace finetune {

/// A parameter of a state dict.
struct ParameterShape {
  std::string name;
  std::vector<int64_t> sizes;
};

/// The shapes that an optimizer's group tells of its parameters, in its order; unset where a parameter has no
/// moments.
using GroupShapes = std::vector<std::optional<std::vector<int64_t>>>;

/// Whose moments are whose where an optimizer's state has no names: for each group, indices into
/// `parameters`. torch numbers parameters group by group, so the groups one after another are tried first, in
/// the order of the state dict, then with the model's parts (names up to their first dot) in another order.
/// Else each group is taken to hold some of the parameters in the state dict's order, as Hugging Face's two
/// do (with weight decay and without), and shapes say which. Throws `CheckpointError`, beginning with
/// `place`, where no way fits, or more than one.
std::vector<std::vector<size_t>> match_groups(const std::vector<ParameterShape>& parameters,
                                              const std::vector<GroupShapes>& groups,
                                              const std::string& place);

}  // namespace finetune
