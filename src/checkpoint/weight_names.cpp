#include "weight_names.h"

#include <map>
#include <regex>
#include <set>
#include <utility>

#include "finetune/core/json.h"

namespace finetune {
namespace {

/// A prefix of the file's names and what the model has in its place.
using PrefixPair = std::pair<std::string, std::string>;

/// The prefixes that are left when the longest common ending of whole name parts is taken off.
PrefixPair prefixes(const std::string& found, const std::string& wanted) {
  size_t common = 0, at_part = 0;
  while (common < found.size() && common < wanted.size() &&
         found[found.size() - 1 - common] == wanted[wanted.size() - 1 - common]) {
    ++common;
    const bool found_ends = common == found.size() || found[found.size() - 1 - common] == '.';
    const bool wanted_ends = common == wanted.size() || wanted[wanted.size() - 1 - common] == '.';
    if (found_ends && wanted_ends) at_part = common;
  }
  return {found.substr(0, found.size() - at_part), wanted.substr(0, wanted.size() - at_part)};
}

class RenameSearch {
 public:
  RenameSearch(const std::vector<NamedShape>& found, const std::vector<NamedShape>& wanted) {
    for (const auto& [name, sizes] : found) found_.emplace(name, sizes);
    for (const auto& [name, sizes] : wanted) wanted_.emplace(name, sizes);
  }

  /// The pair that names most tensors, again and again.
  std::vector<Rename> run() {
    std::vector<Rename> rules;
    while (!found_.empty() && !wanted_.empty()) {
      PrefixPair best;
      std::vector<std::string> best_named;
      for (const PrefixPair& pair : candidates()) {
        auto named = names_given_by(pair);
        if (named.size() <= best_named.size()) continue;
        best = pair;
        best_named = std::move(named);
      }
      if (best_named.empty()) break;
      for (const std::string& name : best_named) {
        wanted_.erase(best.second + name.substr(best.first.size()));
        found_.erase(name);
      }
      rules.push_back({pattern(best.first), best.second});
    }
    return rules;
  }

 private:
  std::set<PrefixPair> candidates() const {
    std::set<PrefixPair> pairs;
    for (const auto& [found, found_sizes] : found_) {
      for (const auto& [wanted, wanted_sizes] : wanted_) {
        if (found_sizes != wanted_sizes) continue;
        PrefixPair pair = prefixes(found, wanted);
        if (pair.first.size() < found.size()) pairs.insert(std::move(pair));
      }
    }
    return pairs;
  }

  /// The file's names that the pair makes names of the model; none where a shape contradicts it.
  std::vector<std::string> names_given_by(const PrefixPair& pair) const {
    std::vector<std::string> named;
    for (const auto& [name, sizes] : found_) {
      if (!name.starts_with(pair.first)) continue;
      const auto target = wanted_.find(pair.second + name.substr(pair.first.size()));
      if (target == wanted_.end()) continue;
      if (target->second != sizes) return {};
      named.push_back(name);
    }
    return named;
  }

  static std::string pattern(const std::string& prefix) {
    std::string text = "^";
    for (const char c : prefix) text += c == '.' ? "[.]" : std::string(1, c);
    return text;
  }

  std::map<std::string, std::vector<int64_t>> found_, wanted_;
};

}  // namespace

std::string unwrapped_name(std::string_view name) {
  std::string bare(name);
  while (true) {
    if (bare.starts_with("module.")) {
      bare.erase(0, 7);
    } else if (const size_t compiled = bare.find("_orig_mod."); compiled != std::string::npos) {
      bare.erase(compiled, 10);
    } else {
      return bare;
    }
  }
}

std::string modern_name(std::string_view name, const std::vector<Rename>& rules) {
  std::string modern = unwrapped_name(name);
  for (const Rename& rule : rules) {
    modern = std::regex_replace(modern, std::regex(rule.pattern), rule.replacement);
  }
  if (modern.ends_with(".gamma")) return modern.replace(modern.size() - 6, 6, ".weight");
  if (modern.ends_with(".beta")) return modern.replace(modern.size() - 5, 5, ".bias");
  return modern;
}

std::vector<Rename> suggest_renames(const std::vector<NamedShape>& found,
                                    const std::vector<NamedShape>& wanted) {
  return RenameSearch(found, wanted).run();
}

std::string to_text(const std::vector<Rename>& rules) {
  Json list = Json::array();
  for (const Rename& rule : rules) list.push_back(Json::array({rule.pattern, rule.replacement}));
  return "\"rename\": " + list.dump();
}

}  // namespace finetune
