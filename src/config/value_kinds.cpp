#include "value_kinds.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <regex>

#include "finetune/core/text.h"
#include "hub_cache.h"

namespace finetune::config {
namespace {

constexpr int64_t kLargestExactInteger = int64_t{1} << 53;

/// The value on one line, cut where it is long.
std::string brief(const Json& value) {
  constexpr size_t kLongest = 60;
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

bool is_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::filesystem::path absolute_path(const std::string& text, const std::filesystem::path& base) {
  const std::filesystem::path whole = base / text;
  std::filesystem::path plain = whole.lexically_normal();
  // "link/.." is not always where it seems: where a link is in the way, only the file system knows.
  std::error_code ignored;
  const auto real = std::filesystem::weakly_canonical(whole, ignored);
  if (!real.empty() && real != std::filesystem::weakly_canonical(plain, ignored)) plain = real;
  return plain.has_filename() ? plain : plain.parent_path();
}

std::optional<Interval> parse_interval(std::string_view text) {
  if (text == "never") return Interval{};
  const size_t space = text.find(' ');
  if (space == std::string_view::npos) return {};
  const std::string_view number = text.substr(0, space);
  const std::string_view unit = text.substr(space + 1);
  const bool steps = unit == "step" || unit == "steps";
  if (!steps && unit != "epoch" && unit != "epochs") return {};
  const size_t point = steps ? std::string_view::npos : number.find('.');
  if (!is_digits(number.substr(0, point))) return {};
  if (point != std::string_view::npos && !is_digits(number.substr(point + 1))) return {};
  double count = 0;
  if (std::from_chars(number.data(), number.data() + number.size(), count).ec != std::errc()) return {};
  if (steps && count > static_cast<double>(kLargestExactInteger)) return {};
  if (count == 0) return Interval{};
  return Interval{count, steps ? Interval::Unit::kSteps : Interval::Unit::kEpochs};
}

}  // namespace

Refusal refuse(const Json& found, const std::string& expected) {
  const char* type = found.is_string()   ? "the string "
                     : found.is_array()  ? "the list "
                     : found.is_object() ? "the object "
                                         : "";
  return Mismatch{"", "found " + (type + brief(found)) + "; expected " + expected};
}

Refusal Boolean::read(const Json& value, const std::filesystem::path&, bool& out) const {
  if (!value.is_boolean()) return refuse(value, "true or false");
  out = value.get<bool>();
  return {};
}

Refusal Number::read(const Json& value, const std::filesystem::path&, double& out) const {
  const double number = value.is_number() ? value.get<double>() : std::nan("");
  const bool taken =
      std::isfinite(number) && (above_low ? number > low : number >= low) && (!end || number < *end);
  if (!taken) {
    const auto bound = [](double limit) { return Json(limit).dump(); };
    return refuse(value, "a number " + std::string(above_low ? "above " : "of at least ") + bound(low) +
                             (end ? " and below " + bound(*end) : ""));
  }
  out = number;
  return {};
}

Json Number::schema() const {
  Json result = {{"type", "number"}, {above_low ? "exclusiveMinimum" : "minimum", low}};
  if (end) result["exclusiveMaximum"] = *end;
  return result;
}

Refusal refuse_choice(const Json& found, const Json& spellings) {
  std::vector<std::string> names;
  std::vector<std::string> strings;
  for (const Json& spelling : spellings) {
    names.push_back(spelling.is_string() ? spelling.get<std::string>() : spelling.dump());
    if (spelling.is_string()) strings.push_back(names.back());
  }
  auto refusal = refuse(found, (names.size() == 1 ? "" : "one of ") + join_some(names, names.size()));
  const auto nearest = found.is_string() ? nearest_name(found.get<std::string>(), strings) : std::nullopt;
  if (nearest && names.size() > 1) refusal->message += "; did you mean " + *nearest + "?";
  return refusal;
}

Choice<std::string> one_of(const std::vector<std::string>& names) {
  Choice<std::string> choice;
  for (const std::string& name : names) choice.spellings.emplace_back(name, name);
  return choice;
}

Refusal Text::read(const Json& value, const std::filesystem::path&, std::string& out) const {
  if (!value.is_string()) return refuse(value, "a string");
  if (value.get_ref<const std::string&>().empty()) return refuse(value, "a string of at least one character");
  out = value.get<std::string>();
  return {};
}

Json Text::write(const std::string& value) const { return escape_variables(value); }

Refusal DeviceName::read(const Json& value, const std::filesystem::path&, std::string& out) const {
  const std::string name = value.is_string() ? value.get<std::string>() : "";
  const std::string_view type = std::string_view(name).substr(0, name.find(':'));
  const std::string_view number = std::string_view(name).substr(type.size());  // with its colon
  const bool numbered = (type == "cuda" || type == "sim") &&
                        (number.empty() || (number.size() <= 4 && is_digits(number.substr(1))));
  if (name != "auto" && name != "cpu" && !numbered) {
    return refuse(value, "auto, cpu, cuda, or one GPU as in cuda:1");
  }
  out = name;
  return {};
}

Refusal Path::read(const Json& value, const std::filesystem::path& base, std::filesystem::path& out) const {
  std::string text;
  if (Text{}.read(value, base, text)) return refuse(value, "a path, as a string of at least one character");
  if (text.find('\0') != std::string::npos) return refuse(value, "a path, which holds no NUL character");
  out = absolute_path(text, base);
  return {};
}

Json Path::write(const std::filesystem::path& value) const { return escape_variables(value.string()); }

Refusal CacheFolder::read(const Json& value, const std::filesystem::path& base,
                          std::filesystem::path& out) const {
  if (auto refusal = Path::read(value, base, out)) return refusal;
  if (value == "auto" || value == "none") out = value.get<std::string>();
  return {};
}

Refusal ModelPath::read(const Json& value, const std::filesystem::path& base,
                        std::filesystem::path& out) const {
  if (auto refusal = Path::read(value, base, out)) return refusal;
  std::error_code ignored;
  const auto& id = value.get_ref<const std::string&>();
  if (!may_be_hub_id(id) || std::filesystem::exists(out, ignored)) return {};
  if (const auto cached = find_in_hub_cache(id)) {
    out = *cached;
    return {};
  }
  return Mismatch{"", "there is no folder " + out.string() + ", and no model " + id +
                          " in the Hugging Face cache " + hub_cache_folder().string() +
                          "; correct the path, or download the model: hf download " + id};
}

Refusal ClassNames::read(const Json& value, const std::filesystem::path& base,
                         std::vector<std::string>& out) const {
  if (auto refusal = distinct_list_of(Text{}).read(value, base, out)) return refusal;
  if (out.size() == 1) return refuse(value, "two labels or more, or an empty list to learn them");
  return {};
}

Json ClassNames::schema() const {
  Json schema = distinct_list_of(Text{}).schema();
  schema["not"] = {{"type", "array"}, {"minItems", 1}, {"maxItems", 1}};
  return schema;
}

Refusal Column::read(const Json& value, const std::filesystem::path&, ColumnName& out) const {
  if (const auto index = exact_integer<int64_t>(value, 0, kLargestExactInteger)) {
    out = {"", static_cast<size_t>(*index)};
  } else if (value.is_string() && !value.get_ref<const std::string&>().empty()) {
    out = {value.get<std::string>(), {}};
  } else {
    return refuse(value, "the name of a column, or its number from 0");
  }
  return {};
}

Json Column::write(const ColumnName& value) const {
  return value.index ? Json(*value.index) : Json(escape_variables(value.name));
}

Json Column::schema() const {
  return {{"anyOf", Json::array({Text{}.schema(), Integer<int64_t>{0, kLargestExactInteger}.schema()})}};
}

Refusal Delimiter::read(const Json& value, const std::filesystem::path&, char& out) const {
  const std::string text = value.is_string() ? value.get<std::string>() : "";
  const unsigned char c = text.size() == 1 ? static_cast<unsigned char>(text[0]) : 0;
  if (c == 0 || c >= 0x80 || c == '"' || c == '\n' || c == '\r') {
    return refuse(value, R"(one ASCII character that separates fields, such as ";" or "\t")");
  }
  out = text[0];
  return {};
}

Refusal IntervalLength::read(const Json& value, const std::filesystem::path&, Interval& out) const {
  std::optional<Interval> interval;
  if (const auto steps = exact_integer<int64_t>(value, 0, kLargestExactInteger)) {
    interval = Interval{static_cast<double>(*steps), Interval::Unit::kSteps};
  } else if (value.is_string()) {
    interval = parse_interval(value.get_ref<const std::string&>());
  }
  if (!interval)
    return refuse(value, R"(an interval such as "1 epoch", "0.5 epochs", "200 steps", 200 or "never")");
  out = *interval;
  return {};
}

Json IntervalLength::write(const Interval& value) const {
  if (value.never()) return "never";
  char digits[400];
  const auto end = std::to_chars(digits, digits + sizeof(digits), value.count, std::chars_format::fixed).ptr;
  const std::string unit = value.unit == Interval::Unit::kSteps ? " step" : " epoch";
  return std::string(digits, end) + unit + (value.count == 1 ? "" : "s");
}

Json IntervalLength::schema() const {
  const Json words = {{"type", "string"},
                      {"pattern", R"(^(never|[0-9]+ steps?|[0-9]+(\.[0-9]+)? epochs?)$)"}};
  return {{"anyOf", Json::array({words, Integer<int64_t>{0, kLargestExactInteger}.schema()})}};
}

Refusal CountOrAuto::read(const Json& value, const std::filesystem::path&, AutoCount& out) const {
  if (value == "auto") {
    out = {true, 0};
  } else if (const auto count = exact_integer<int64_t>(value, 1, most)) {
    out = {false, *count};
  } else {
    return refuse(value, "auto, or " + integer(1, most).expected());
  }
  return {};
}

Json CountOrAuto::write(const AutoCount& value) const {
  return value.automatic ? Json("auto") : Json(value.value);
}

Json CountOrAuto::schema() const {
  return {{"anyOf", Json::array({Json{{"const", "auto"}}, integer(1, most).schema()})}};
}

Refusal WarmupLength::read(const Json& value, const std::filesystem::path&, double& out) const {
  if (const auto steps = exact_integer<int64_t>(value, 0, kLargestExactInteger)) {
    out = static_cast<double>(*steps);
  } else if (fraction().read(value, {}, out)) {
    return refuse(value, "a fraction of all steps (at least 0 and below 1), or a whole number of steps");
  }
  return {};
}

Json WarmupLength::schema() const {
  return {{"anyOf", Json::array({fraction().schema(), Integer<int64_t>{1, kLargestExactInteger}.schema()})}};
}

Refusal Betas::read(const Json& value, const std::filesystem::path& base, OptimizerConfig& out) const {
  const bool two = value.is_array() && value.size() == 2;
  if (!two || fraction().read(value[0], base, out.beta1) || fraction().read(value[1], base, out.beta2)) {
    return refuse(value, "a list of two numbers, each at least 0 and below 1, such as [0.9, 0.999]");
  }
  return {};
}

Json Betas::schema() const {
  return {{"type", "array"}, {"items", fraction().schema()}, {"minItems", 2}, {"maxItems", 2}};
}

Refusal RenameRules::read(const Json& value, const std::filesystem::path&, std::vector<Rename>& out) const {
  if (!value.is_array())
    return refuse(value, "a list of pairs, each a regular expression and its replacement");
  std::vector<Rename> rules;
  for (size_t i = 0; i < value.size(); ++i) {
    const Json& pair = value[i];
    const std::string where = "/" + std::to_string(i);
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string()) {
      return Mismatch{where, refuse(pair, R"(a pair such as ["^fc[.]", "classifier."])")->message};
    }
    rules.push_back({pair[0].get<std::string>(), pair[1].get<std::string>()});
    try {
      const std::regex compiled(rules.back().pattern);
    } catch (const std::regex_error& error) {
      return Mismatch{where + "/0",
                      refuse(pair[0], "a regular expression")->message + " (" + error.what() + ")"};
    }
  }
  out = std::move(rules);
  return {};
}

Json RenameRules::write(const std::vector<Rename>& value) const {
  Json list = Json::array();
  for (const Rename& rule : value) {
    list.push_back(Json::array({escape_variables(rule.pattern), escape_variables(rule.replacement)}));
  }
  return list;
}

Json RenameRules::schema() const {
  const Json pair = {{"type", "array"}, {"items", {{"type", "string"}}}, {"minItems", 2}, {"maxItems", 2}};
  return {{"type", "array"}, {"items", pair}};
}

Refusal Pattern::read(const Json& value, const std::filesystem::path& base, std::string& out) const {
  if (auto refusal = Text::read(value, base, out)) return refusal;
  try {
    const std::regex compiled(out);
  } catch (const std::regex_error& error) {
    return Mismatch{{}, refuse(value, "a regular expression")->message + " (" + error.what() + ")"};
  }
  return {};
}

Json Pattern::write(const std::string& value) const { return escape_variables(value); }

namespace {

/// An object's members, each read by its own kind; a member that is not among them is refused.
class ObjectReader {
 public:
  ObjectReader(const Json& object, const std::filesystem::path& base) : object_(object), base_(base) {}

  /// Leaves `out` as it is where there is no such member.
  template <class Kind, class T>
  ObjectReader& member(const char* name, const Kind& kind, T& out) {
    known_.emplace_back(name);
    const auto found = object_.find(name);
    if (refusal_ || found == object_.end() || found->is_null()) return *this;
    if constexpr (requires { out.emplace(); }) {
      refusal_ = kind.read(*found, base_, out.emplace());
    } else {
      refusal_ = kind.read(*found, base_, out);
    }
    if (refusal_) refusal_->where = "/" + std::string(name) + refusal_->where;
    return *this;
  }

  Refusal finish() const {
    if (refusal_) return refusal_;
    for (const auto& [name, value] : object_.items()) {
      if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
      return Mismatch{"/" + name, "found a key that is not known; known are " + join_some(known_)};
    }
    return {};
  }

 private:
  const Json& object_;
  const std::filesystem::path& base_;
  std::vector<std::string> known_;
  Refusal refusal_;
};

}  // namespace

Refusal ParameterGroupKind::read(const Json& value, const std::filesystem::path& base,
                                 ParameterGroup& out) const {
  if (!value.is_object())
    return refuse(value, R"(an object such as {"patterns": ["^classifier"], "learning_rate": 1e-3})");
  ParameterGroup group;
  if (auto refusal = ObjectReader(value, base)
                         .member("patterns", one_or_more(Pattern{}), group.patterns)
                         .member("learning_rate", at_least(0), group.learning_rate)
                         .member("weight_decay", at_least(0), group.weight_decay)
                         .finish()) {
    return refusal;
  }
  if (group.patterns.empty()) return refuse(value, "\"patterns\" for the names of its parameters");
  out = std::move(group);
  return {};
}

Json ParameterGroupKind::write(const ParameterGroup& value) const {
  Json group{{"patterns", one_or_more(Pattern{}).write(value.patterns)}};
  if (value.learning_rate) group["learning_rate"] = *value.learning_rate;
  if (value.weight_decay) group["weight_decay"] = *value.weight_decay;
  return group;
}

Json ParameterGroupKind::schema() const {
  return {{"type", "object"},
          {"properties",
           {{"patterns", one_or_more(Pattern{}).schema()},
            {"learning_rate", at_least(0).schema()},
            {"weight_decay", at_least(0).schema()}}},
          {"required", {"patterns"}},
          {"additionalProperties", false}};
}

Refusal EarlyStoppingKind::read(const Json& value, const std::filesystem::path& base,
                                EarlyStopping& out) const {
  if (!value.is_object()) return refuse(value, R"(an object such as {"patience": 3, "min_delta": 0.001})");
  EarlyStopping stopping;
  if (auto refusal = ObjectReader(value, base)
                         .member("patience", integer(1), stopping.patience)
                         .member("min_delta", at_least(0), stopping.min_delta)
                         .finish()) {
    return refusal;
  }
  if (!value.contains("patience")) return refuse(value, "\"patience\", a number of evaluations");
  out = stopping;
  return {};
}

Json EarlyStoppingKind::write(const EarlyStopping& value) const {
  return {{"patience", value.patience}, {"min_delta", value.min_delta}};
}

Json EarlyStoppingKind::schema() const {
  return {{"type", "object"},
          {"properties", {{"patience", integer(1).schema()}, {"min_delta", at_least(0).schema()}}},
          {"required", {"patience"}},
          {"additionalProperties", false}};
}

Refusal UnfreezeKind::read(const Json& value, const std::filesystem::path& base, UnfreezeConfig& out) const {
  if (!value.is_object()) return refuse(value, R"(an object such as {"every": "1 epoch"})");
  UnfreezeConfig unfreeze;
  if (auto refusal = ObjectReader(value, base).member("every", IntervalLength{}, unfreeze.every).finish()) {
    return refusal;
  }
  if (unfreeze.every.never()) {
    return refuse(value, "\"every\", an interval above 0; model.freeze is for what never learns");
  }
  out = unfreeze;
  return {};
}

Json UnfreezeKind::write(const UnfreezeConfig& value) const {
  return {{"every", IntervalLength{}.write(value.every)}};
}

Json UnfreezeKind::schema() const {
  return {{"type", "object"},
          {"properties", {{"every", IntervalLength{}.schema()}}},
          {"required", {"every"}},
          {"additionalProperties", false}};
}

namespace {

/// Each adapter has a dropout site of its own, and no matrix of an encoder is wider.
const Integer<int64_t> kRank = integer(1, 4096);

}  // namespace

Refusal LoraKind::read(const Json& value, const std::filesystem::path& base, LoraConfig& out) const {
  if (!value.is_object()) {
    return refuse(value, R"(an object such as {"rank": 8, "alpha": 16, "targets": ["query", "value"]})");
  }
  LoraConfig lora;
  if (auto refusal = ObjectReader(value, base)
                         .member("rank", kRank, lora.rank)
                         .member("alpha", above(0), lora.alpha)
                         .member("dropout", fraction(), lora.dropout)
                         .member("targets", one_or_list_of(Pattern{}), lora.targets)
                         .finish()) {
    return refusal;
  }
  out = lora;
  return {};
}

Json LoraKind::write(const LoraConfig& value) const {
  return {
      {"rank", value.rank}, {"alpha", value.alpha}, {"dropout", value.dropout}, {"targets", value.targets}};
}

Json LoraKind::schema() const {
  return {{"type", "object"},
          {"properties",
           {{"rank", kRank.schema()},
            {"alpha", above(0).schema()},
            {"dropout", fraction().schema()},
            {"targets", one_or_list_of(Pattern{}).schema()}}},
          {"additionalProperties", false}};
}

Refusal EmaKind::read(const Json& value, const std::filesystem::path& base, EmaConfig& out) const {
  if (!value.is_object()) return refuse(value, R"(an object such as {"decay": 0.999})");
  EmaConfig ema;
  if (auto refusal = ObjectReader(value, base).member("decay", fraction(), ema.decay).finish())
    return refusal;
  out = ema;
  return {};
}

Json EmaKind::write(const EmaConfig& value) const { return {{"decay", value.decay}}; }

Json EmaKind::schema() const {
  return {
      {"type", "object"}, {"properties", {{"decay", fraction().schema()}}}, {"additionalProperties", false}};
}

Refusal LabelWeightsKind::read(const Json& value, const std::filesystem::path& base,
                               LabelWeights& out) const {
  if (value == "balanced") {
    out = {.balanced = true, .values = {}, .by_label = {}};
    return {};
  }
  if (!value.is_structured() || value.empty()) {
    return refuse(value, "a list of numbers, an object from label to number, or \"balanced\"");
  }
  LabelWeights weights;
  const Number weight = at_least(0);
  for (const auto& [place, item] : value.items()) {
    double number = 0;
    if (auto refusal = weight.read(item, base, number))
      return Mismatch{(Json::json_pointer() / place).to_string(), refusal->message};
    if (value.is_array()) weights.values.push_back(number);
  }
  if (value.is_object()) weights.by_label = value.get<std::map<std::string, double>>();
  out = std::move(weights);
  return {};
}

Json LabelWeightsKind::write(const LabelWeights& value) const {
  if (value.balanced) return "balanced";
  if (!value.values.empty()) return value.values;
  if (!value.by_label.empty()) return value.by_label;
  return nullptr;
}

Json LabelWeightsKind::schema() const {
  const Json weight = at_least(0).schema();
  return {{"anyOf", Json::array({{{"type", "array"}, {"items", weight}, {"minItems", 1}},
                                 {{"type", "object"}, {"additionalProperties", weight}, {"minProperties", 1}},
                                 {{"const", "balanced"}}})}};
}

std::string escape_variables(const std::string& text) {
  std::string escaped;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '$' && i + 1 < text.size() && text[i + 1] == '{') escaped += '$';
    escaped += text[i];
  }
  return escaped;
}

}  // namespace finetune::config
