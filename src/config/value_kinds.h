#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "finetune/config/run_config.h"
#include "finetune/core/json.h"

namespace finetune::config {

/// Why a value was refused. `where` continues the key's JSON pointer ("/1" for the second item of a list).
struct Mismatch {
  std::string where;
  std::string message;
};

/// Nothing where a value was taken.
using Refusal = std::optional<Mismatch>;

/// "found the string \"abc\"; expected a number".
Refusal refuse(const Json& found, const std::string& expected);

// A kind of value knows how to read a T from JSON, write it back, and describe itself as JSON Schema. Every
// kind has:
//   Refusal read(const Json& value, const std::filesystem::path& base, T& out) const;   (relative paths start
//   at base) Json write(const T& value) const; Json schema() const;

struct Boolean {
  Refusal read(const Json& value, const std::filesystem::path& base, bool& out) const;
  Json write(bool value) const { return value; }
  Json schema() const { return {{"type", "boolean"}}; }
};

/// The integer that `value` holds exactly (32.0 and 1e3 count, as in JSON Schema), if it lies in [low, high].
template <std::integral T>
std::optional<T> exact_integer(const Json& value, T low, T high) {
  std::optional<T> result;
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    if (std::in_range<T>(number)) result = static_cast<T>(number);
  } else if (value.is_number_integer()) {
    const auto number = value.get<int64_t>();
    if (std::in_range<T>(number)) result = static_cast<T>(number);
  } else if (value.is_number_float()) {
    const double number = value.get<double>();
    if (number >= 0 && number < 0x1p64 && number == static_cast<double>(static_cast<uint64_t>(number))) {
      return exact_integer<T>(static_cast<uint64_t>(number), low, high);
    }
    if (number < 0 && number >= -0x1p63 && number == static_cast<double>(static_cast<int64_t>(number))) {
      return exact_integer<T>(static_cast<int64_t>(number), low, high);
    }
  }
  return result && *result >= low && *result <= high ? result : std::nullopt;
}

template <std::integral T>
struct Integer {
  T low = std::numeric_limits<T>::min();
  T high = std::numeric_limits<T>::max();

  Refusal read(const Json& value, const std::filesystem::path&, T& out) const {
    const auto number = exact_integer<T>(value, low, high);
    if (!number) return refuse(value, expected());
    out = *number;
    return {};
  }
  Json write(T value) const { return value; }
  Json schema() const { return {{"type", "integer"}, {"minimum", low}, {"maximum", high}}; }

  std::string expected() const {
    const bool has_low = low != std::numeric_limits<T>::min() || std::unsigned_integral<T>;
    const bool has_high = high != std::numeric_limits<T>::max();
    if (has_low && has_high) return "an integer from " + std::to_string(low) + " to " + std::to_string(high);
    if (has_low) return "an integer of at least " + std::to_string(low);
    return "an integer";
  }
};

inline Integer<int64_t> integer() { return {}; }
inline Integer<int64_t> integer(int64_t low, int64_t high = std::numeric_limits<int64_t>::max()) {
  return {low, high};
}

/// A finite number from `low` on, and below `end` where there is one.
struct Number {
  double low = 0;
  bool above_low = false;  ///< `low` itself is refused
  std::optional<double> end;

  Refusal read(const Json& value, const std::filesystem::path& base, double& out) const;
  Json write(double value) const { return value; }
  Json schema() const;
};

inline Number at_least(double low) { return {low, false, {}}; }
inline Number above(double low) { return {low, true, {}}; }
/// In [0, 1).
inline Number fraction() { return {0.0, false, 1.0}; }

/// Lists the spellings and names the nearest.
Refusal refuse_choice(const Json& found, const Json& spellings);

/// One of a few values, each with its spelling in JSON (a string, `true` or `false`).
template <class T>
struct Choice {
  std::vector<std::pair<T, Json>> spellings;

  Refusal read(const Json& value, const std::filesystem::path&, T& out) const {
    for (const auto& [meaning, spelling] : spellings) {
      if (spelling != value) continue;
      out = meaning;
      return {};
    }
    return refuse_choice(value, schema().at("enum"));
  }
  Json write(const T& value) const {
    for (const auto& [meaning, spelling] : spellings) {
      if (meaning == value) return spelling;
    }
    return nullptr;
  }
  Json schema() const {
    Json names = Json::array();
    for (const auto& [meaning, spelling] : spellings) names.push_back(spelling);
    return {{"enum", names}};
  }
};

/// A choice whose meaning is its spelling.
Choice<std::string> one_of(const std::vector<std::string>& names);

/// A string of at least one character.
struct Text {
  Refusal read(const Json& value, const std::filesystem::path& base, std::string& out) const;
  Json write(const std::string& value) const;
  Json schema() const { return {{"type", "string"}, {"minLength", 1}}; }
};

/// `auto`, `cpu`, `cuda` or `cuda:N`; also `sim` and `sim:N`, the simulated accelerator that tests load as a
/// plugin.
struct DeviceName {
  Refusal read(const Json& value, const std::filesystem::path& base, std::string& out) const;
  Json write(const std::string& value) const { return value; }
  Json schema() const { return {{"type", "string"}, {"pattern", "^(auto|cpu|(cuda|sim)(:[0-9]{1,3})?)$"}}; }
};

/// A path, made absolute.
struct Path {
  Refusal read(const Json& value, const std::filesystem::path& base, std::filesystem::path& out) const;
  Json write(const std::filesystem::path& value) const;
  Json schema() const { return {{"type", "string"}, {"minLength", 1}}; }
};

/// A folder, made absolute. A name that is no folder but may be a hub id (`org/name`) is looked up in the
/// Hugging Face cache.
struct ModelPath : Path {
  Refusal read(const Json& value, const std::filesystem::path& base, std::filesystem::path& out) const;
};

/// A folder, made absolute; the words `auto` and `none` stay.
struct CacheFolder : Path {
  Refusal read(const Json& value, const std::filesystem::path& base, std::filesystem::path& out) const;
};

/// A list, each item of one kind.
template <class Item>
struct List {
  Item item;
  bool one_alone = false;  ///< an item without the list around it is a list of one
  bool distinct = false;
  bool needs_one = false;  ///< an empty list is refused

  template <class T>
  Refusal read(const Json& value, const std::filesystem::path& base, std::vector<T>& out) const {
    std::vector<T> items;
    if (one_alone && value.is_string()) {
      if (auto refusal = item.read(value, base, items.emplace_back())) return refusal;
    } else if (!value.is_array()) {
      const std::string what = item.schema().value("type", "") == "object" ? "objects" : "strings";
      return refuse(value, (one_alone ? "a string or a list of " : "a list of ") + what);
    } else {
      for (size_t i = 0; i < value.size(); ++i) {
        const std::string where = "/" + std::to_string(i);
        if (auto refusal = item.read(value[i], base, items.emplace_back()))
          return Mismatch{where + refusal->where, refusal->message};
        for (size_t j = 0; distinct && j < i; ++j) {
          if (items[j] == items[i])
            return Mismatch{where,
                            "repeats item " + std::to_string(j) + ", " + value[i].dump() + "; keep one"};
        }
      }
    }
    if (needs_one && items.empty()) return refuse(value, "at least one item");
    out = std::move(items);
    return {};
  }
  template <class T>
  Json write(const std::vector<T>& values) const {
    Json list = Json::array();
    for (const T& value : values) list.push_back(item.write(value));
    return list;
  }
  Json schema() const {
    Json list = {{"type", "array"}, {"items", item.schema()}};
    if (distinct) list["uniqueItems"] = true;
    if (needs_one) list["minItems"] = 1;
    if (!one_alone) return list;
    return {{"anyOf", Json::array({item.schema(), list})}};
  }
};

template <class Item>
List<Item> list_of(Item item) {
  return {.item = item};
}
template <class Item>
List<Item> distinct_list_of(Item item) {
  return {.item = item, .distinct = true};
}
/// One item, or a list of any number of them.
template <class Item>
List<Item> one_or_list_of(Item item) {
  return {.item = item, .one_alone = true};
}
template <class Item>
List<Item> one_or_more(Item item) {
  return {.item = item, .one_alone = true, .needs_one = true};
}

/// The names of the classes: none (they are learned), or two and more.
struct ClassNames {
  Refusal read(const Json& value, const std::filesystem::path& base, std::vector<std::string>& out) const;
  Json write(const std::vector<std::string>& value) const { return distinct_list_of(Text{}).write(value); }
  Json schema() const;
};

/// A column by name, or by its number from 0.
struct Column {
  Refusal read(const Json& value, const std::filesystem::path& base, ColumnName& out) const;
  Json write(const ColumnName& value) const;
  Json schema() const;
};

/// One ASCII character that can separate fields.
struct Delimiter {
  Refusal read(const Json& value, const std::filesystem::path& base, char& out) const;
  Json write(char value) const { return std::string(1, value); }
  Json schema() const {
    return {{"type", "string"}, {"pattern", R"(^[\x01-\x09\x0b\x0c\x0e-\x21\x23-\x7f]$)"}};
  }
};

/// "1 epoch", "200 steps", a number of steps, or "never".
struct IntervalLength {
  Refusal read(const Json& value, const std::filesystem::path& base, Interval& out) const;
  Json write(const Interval& value) const;
  Json schema() const;
};

/// "auto", or a count of at least 1.
struct CountOrAuto {
  int64_t most = std::numeric_limits<int64_t>::max();

  Refusal read(const Json& value, const std::filesystem::path& base, AutoCount& out) const;
  Json write(const AutoCount& value) const;
  Json schema() const;
};

/// A fraction of all steps below 1, or a whole number of steps.
struct WarmupLength {
  Refusal read(const Json& value, const std::filesystem::path& base, double& out) const;
  Json write(double value) const { return value < 1 ? Json(value) : Json(static_cast<int64_t>(value)); }
  Json schema() const;
};

/// Adam's two decay rates as a list of two.
struct Betas {
  Refusal read(const Json& value, const std::filesystem::path& base, OptimizerConfig& out) const;
  Json write(const OptimizerConfig& value) const { return Json::array({value.beta1, value.beta2}); }
  Json schema() const;
};

/// A regular expression (ECMAScript).
struct Pattern : Text {
  Refusal read(const Json& value, const std::filesystem::path& base, std::string& out) const;
  Json write(const std::string& value) const;
};

/// Objects of patterns and the settings of the parameters that they match.
struct ParameterGroupKind {
  Refusal read(const Json& value, const std::filesystem::path& base, ParameterGroup& out) const;
  Json write(const ParameterGroup& value) const;
  Json schema() const;
};

/// `{"patience": ..., "min_delta": ...}`.
struct EarlyStoppingKind {
  Refusal read(const Json& value, const std::filesystem::path& base, EarlyStopping& out) const;
  Json write(const EarlyStopping& value) const;
  Json schema() const;
};

/// `{"every": ...}`.
struct UnfreezeKind {
  Refusal read(const Json& value, const std::filesystem::path& base, UnfreezeConfig& out) const;
  Json write(const UnfreezeConfig& value) const;
  Json schema() const;
};

/// `{"rank": ..., "alpha": ..., "dropout": ..., "targets": [...]}`; what is left out has its default.
struct LoraKind {
  Refusal read(const Json& value, const std::filesystem::path& base, LoraConfig& out) const;
  Json write(const LoraConfig& value) const;
  Json schema() const;
};

/// `{"decay": ...}`.
struct EmaKind {
  Refusal read(const Json& value, const std::filesystem::path& base, EmaConfig& out) const;
  Json write(const EmaConfig& value) const;
  Json schema() const;
};

/// Regular expressions and what replaces them, a list of pairs.
struct RenameRules {
  Refusal read(const Json& value, const std::filesystem::path& base, std::vector<Rename>& out) const;
  Json write(const std::vector<Rename>& value) const;
  Json schema() const;
};

/// What labels weigh: a list of numbers, an object from label to number, or "balanced".
struct LabelWeightsKind {
  Refusal read(const Json& value, const std::filesystem::path& base, LabelWeights& out) const;
  Json write(const LabelWeights& value) const;
  Json schema() const;
};

/// `${` in a string of the config reads the environment; this writes it so that it does not.
std::string escape_variables(const std::string& text);

}  // namespace finetune::config
