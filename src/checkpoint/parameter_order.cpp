#include "parameter_order.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "finetune/core/error.h"
#include "tensor_bytes.h"

namespace finetune {
namespace {

using Matching = std::vector<std::vector<size_t>>;

constexpr const char* kRemedy =
    "; save the optimizer's state with names (torch.optim.AdamW(model.named_parameters(), ...) puts "
    "param_names "
    "into it), or start without --resume";

/// Beyond so many parts their orders are too many to try.
constexpr size_t kMostParts = 5;
/// Beyond so many open choices shapes do not tell.
constexpr size_t kMostStates = 20'000;

bool fits(const ParameterShape& parameter, const std::optional<std::vector<int64_t>>& shape) {
  return !shape || parameter.sizes == *shape;
}

/// Numbers of the parameters of each part (of "encoder.x.y": "encoder"), in the state dict's order.
Matching parts_of(const std::vector<ParameterShape>& parameters) {
  Matching parts;
  std::map<std::string, size_t> known;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const std::string part = parameters[i].name.substr(0, parameters[i].name.find('.'));
    const auto [place, is_new] = known.try_emplace(part, parts.size());
    if (is_new) parts.emplace_back();
    parts[place->second].push_back(i);
  }
  return parts;
}

class GroupMatcher {
 public:
  GroupMatcher(const std::vector<ParameterShape>& parameters, const std::vector<GroupShapes>& groups,
               const std::string& place)
      : parameters_(parameters), groups_(groups), place_(place) {
    for (const GroupShapes& group : groups) num_wanted_ += group.size();
  }

  Matching match() const {
    if (num_wanted_ > parameters_.size()) {
      refuse("is of " + std::to_string(num_wanted_) + " parameters, the state dict beside it has " +
             std::to_string(parameters_.size()));
    }
    if (num_wanted_ == parameters_.size()) {
      std::vector<size_t> order(parameters_.size());
      std::iota(order.begin(), order.end(), size_t{0});
      if (fits_in_order(order)) return cut(order);
      if (auto reordered = with_parts_reordered()) return cut(*reordered);
    }
    return by_shapes();
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw CheckpointError(place_ + ": the optimizer's state " + what + kRemedy);
  }

  bool fits_in_order(const std::vector<size_t>& order) const {
    size_t next = 0;
    for (const GroupShapes& group : groups_) {
      for (const auto& shape : group) {
        if (!fits(parameters_[order[next++]], shape)) return false;
      }
    }
    return true;
  }

  Matching cut(const std::vector<size_t>& order) const {
    Matching matching;
    auto next = order.begin();
    for (const GroupShapes& group : groups_) {
      const auto end = next + static_cast<std::ptrdiff_t>(group.size());
      matching.emplace_back(next, end);
      next = end;
    }
    return matching;
  }

  /// The one order of the model's parts in which everything fits; nothing where there is none.
  std::optional<std::vector<size_t>> with_parts_reordered() const {
    const Matching parts = parts_of(parameters_);
    if (parts.size() < 2 || parts.size() > kMostParts) return std::nullopt;
    std::vector<size_t> turn(parts.size());
    std::iota(turn.begin(), turn.end(), size_t{0});
    std::optional<std::vector<size_t>> found;
    while (std::next_permutation(turn.begin(), turn.end())) {
      std::vector<size_t> order;
      for (const size_t part : turn) order.insert(order.end(), parts[part].begin(), parts[part].end());
      if (!fits_in_order(order)) continue;
      if (found) refuse_ambiguous();
      found = std::move(order);
    }
    return found;
  }

  [[noreturn]] void refuse_ambiguous() const {
    refuse("can be given to the parameters in more than one way, for it has no names and shapes do not tell");
  }

  /// How many parameters each group has been given.
  using Counts = std::vector<size_t>;
  struct Step {
    Counts before;
    std::optional<size_t> group;  ///< that took the parameter; none: it is not the optimizer's
    bool unique = true;
  };
  using Level = std::map<Counts, Step>;

  /// Goes through the parameters in order, keeping every way to have dealt them to the groups so far.
  Matching by_shapes() const {
    std::vector<Level> levels{{{Counts(groups_.size(), 0), Step{{}, {}, true}}}};
    for (size_t i = 0; i < parameters_.size(); ++i) {
      Level next;
      for (const auto& [counts, step] : levels.back()) deal(i, counts, step.unique, next);
      if (next.size() * groups_.size() > kMostStates) refuse_ambiguous();
      if (next.empty()) refuse_unfit();
      levels.push_back(std::move(next));
    }
    Counts counts;
    for (const GroupShapes& group : groups_) counts.push_back(group.size());
    const auto end = levels.back().find(counts);
    if (end == levels.back().end()) refuse_unfit();
    if (!end->second.unique) refuse_ambiguous();
    return trace(levels, counts);
  }

  void deal(size_t parameter, const Counts& counts, bool unique, Level& next) const {
    const auto add = [&](Counts after, std::optional<size_t> group) {
      const auto [place, is_new] = next.try_emplace(std::move(after), Step{counts, group, unique});
      if (!is_new) place->second.unique = false;
    };
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (counts[g] == groups_[g].size() || !fits(parameters_[parameter], groups_[g][counts[g]])) continue;
      Counts after = counts;
      ++after[g];
      add(std::move(after), g);
    }
    size_t dealt = std::accumulate(counts.begin(), counts.end(), size_t{0});
    if (num_wanted_ - dealt < parameters_.size() - parameter) add(counts, std::nullopt);
  }

  Matching trace(const std::vector<Level>& levels, Counts counts) const {
    Matching matching(groups_.size());
    for (size_t i = parameters_.size(); i-- > 0;) {
      const Step& step = levels[i + 1].at(counts);
      if (step.group) matching[*step.group].insert(matching[*step.group].begin(), i);
      counts = step.before;
    }
    return matching;
  }

  [[noreturn]] void refuse_unfit() const {
    std::string what =
        "does not fit the state dict beside it: no order of the parameters gives every moment its "
        "parameter's shape";
    size_t next = 0;
    for (size_t g = 0; g < groups_.size() && num_wanted_ == parameters_.size(); ++g) {
      for (size_t i = 0; i < groups_[g].size(); ++i, ++next) {
        if (fits(parameters_[next], groups_[g][i])) continue;
        refuse(what + " (in the order of the state dict, parameter " + std::to_string(next) + ", " +
               parameters_[next].name + " " + shape_text(parameters_[next].sizes) +
               ", has moments of shape " + shape_text(*groups_[g][i]) + ")");
      }
    }
    refuse(what);
  }

  const std::vector<ParameterShape>& parameters_;
  const std::vector<GroupShapes>& groups_;
  const std::string& place_;
  size_t num_wanted_ = 0;
};

}  // namespace

std::vector<std::vector<size_t>> match_groups(const std::vector<ParameterShape>& parameters,
                                              const std::vector<GroupShapes>& groups,
                                              const std::string& place) {
  return GroupMatcher(parameters, groups, place).match();
}

}  // namespace finetune
