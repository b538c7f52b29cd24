#include <algorithm>
#include <string_view>
#include <utility>

#include "finetune/core/json.h"
#include "finetune/core/text.h"
#include "finetune/data/encoded_dataset.h"
#include "finetune/data/message.h"
#include "finetune/data/readers.h"
#include "finetune/data/text_source.h"
#include "tag_scheme.h"

namespace finetune {
namespace {

/// One wanted key of a line's object.
struct Slot {
  std::string key;
  const char* config_key = "";
  bool required = false;
  bool may_be_list = false;
  std::string value;
  const char* type = nullptr;                ///< what the line holds; nullptr: nothing
  std::vector<std::string> items;            ///< of a list
  std::vector<std::string_view> item_types;  ///< "a string", ...
};

/// Fills slots from the events of one parsed line; everything else in it is skipped without being stored.
class SlotFiller : public nlohmann::json_sax<Json> {
 public:
  explicit SlotFiller(std::vector<Slot>& slots) : slots_(slots) {}

  void reset() {
    depth_ = 0;
    current_ = nullptr;
    top_level_ = "nothing";
    problem_.clear();
    for (Slot& slot : slots_) {
      slot.type = nullptr;
      slot.items.clear();
      slot.item_types.clear();
    }
  }

  /// What stands at the top of the line ("an object" is right).
  std::string_view top_level() const { return top_level_; }
  const std::string& problem() const { return problem_; }

  bool null() override { return scalar("null", ""); }
  bool boolean(bool value) override { return scalar("a boolean", value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { return scalar("a number", std::to_string(value)); }
  bool number_unsigned(number_unsigned_t value) override { return scalar("a number", std::to_string(value)); }
  bool number_float(number_float_t, const string_t& source) override { return scalar("a number", source); }
  bool string(string_t& value) override { return scalar("a string", value); }
  bool binary(binary_t&) override { return scalar("binary data", ""); }

  bool start_object(std::size_t) override { return open("an object"); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open("a list"); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    if (depth_ != 1) return true;
    current_ = nullptr;
    for (Slot& slot : slots_) {
      if (slot.key != name) continue;
      if (slot.type != nullptr) {
        problem_ = "key " + shown(name) + " twice in one object, expected once; remove one";
        return false;
      }
      current_ = &slot;
    }
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    std::string what = error.what();
    const size_t reason = what.find(": ", what.find("column "));
    if (reason != std::string::npos) what.erase(0, reason + 2);
    // It quotes what it read up to the error, which may end inside a character.
    what.resize(std::min(what.size(), find_invalid_utf8(what)));
    problem_ =
        "not JSON at byte " + std::to_string(position) + " of the line (" + what +
        "), expected one whole object a line; repair the line, or write the file anew with: jq -c . IN > OUT";
    return false;
  }

 private:
  bool scalar(const char* type, std::string_view value) {
    if (depth_ == 0) top_level_ = type;
    if (current_ == nullptr) return true;
    if (depth_ == 1) {
      current_->type = type;
      current_->value.assign(value);
    } else if (depth_ == 2 && current_->may_be_list) {
      current_->items.emplace_back(value);
      current_->item_types.emplace_back(type);
    }
    return true;
  }

  bool open(const char* type) {
    if (depth_ == 0) {
      top_level_ = type;
    } else {
      scalar(type, "");
    }
    ++depth_;
    return true;
  }

  bool close() {
    --depth_;
    return true;
  }

  std::vector<Slot>& slots_;
  Slot* current_ = nullptr;
  int64_t depth_ = 0;
  std::string_view top_level_;
  std::string problem_;
};

class JsonlReader : public RowReader {
 public:
  JsonlReader(const std::filesystem::path& path, const DataConfig& config, LabelPresence labels)
      : source_(path, config.encoding),
        lines_(source_),
        item_kind_(item_kind(config)),
        label_shape_(config.label_shape),
        filler_(slots_) {
    if (!source_.extend()) {
      throw_data_error(path, 0,
                       "empty file, expected one JSON object a line; check that it was written to the end");
    }
    if (item_kind_ != ItemKind::kWords) text_ = add_slot(config.text, "data.text", true);
    label_ = add_slot(config.label, "data.label", labels == LabelPresence::kRequired);
    slots_[label_].may_be_list = label_shape_ == LabelShape::kClasses || label_shape_ == LabelShape::kItems;
    if (config.text_pair) pair_ = add_slot(*config.text_pair, "data.text_pair", true);
    const auto add_items = [&](const std::optional<ColumnName>& column, const char* key) {
      if (!column) return;
      items_ = add_slot(*column, key, true);
      slots_[*items_].may_be_list = true;
    };
    if (item_kind_ == ItemKind::kWords) add_items(config.tokens, "data.tokens");
    if (item_kind_ == ItemKind::kFields) add_items(config.fields, "data.fields");
    if (item_kind_ >= ItemKind::kTokenPositions) add_items(config.positions, "data.positions");
  }

  bool next(Row& row) override {
    std::string_view line;
    do {
      if (!lines_.next(line)) {
        say_rewritten_iob1(source_.path(), std::exchange(num_rewritten_, 0));
        return false;
      }
    } while (line.find_first_not_of(" \t\r") == std::string_view::npos);
    num_replaced_rows_ += lines_.take_replaced();
    parse(line);
    for (size_t slot = 0; slot < slots_.size(); ++slot) check(slot, line);
    row.line = lines_.number();
    if (text_) std::swap(row.text, slots_[*text_].value);
    row.text_pair.reset();
    if (pair_) take(slots_[*pair_], row.text_pair);
    take_items(row);
    take_label(row);
    return true;
  }

  const std::filesystem::path& file() const override { return source_.path(); }
  int64_t num_replaced_rows() const override { return num_replaced_rows_; }

 private:
  size_t add_slot(const ColumnName& column, const char* key, bool required) {
    if (column.index && required) {
      throw_data_error(source_.path(), 0,
                       std::string(key) + " is the number " + std::to_string(*column.index) +
                           ", but the fields of JSON objects have names; set " + key + " to a name");
    }
    if (std::any_of(slots_.begin(), slots_.end(),
                    [&](const Slot& slot) { return slot.key == column.name; })) {
      throw_data_error(source_.path(), 0,
                       std::string(key) + " is " + shown(column.name) +
                           ", which another column is too; set them to different names");
    }
    Slot slot;
    slot.key = column.name;
    slot.config_key = key;
    slot.required = required;
    slots_.push_back(std::move(slot));
    return slots_.size() - 1;
  }

  void parse(std::string_view line) {
    filler_.reset();
    const bool parsed = Json::sax_parse(line.data(), line.data() + line.size(), &filler_);
    if (filler_.top_level() == "a list") {
      throw_data_error(source_.path(), lines_.number(),
                       "found a list, expected one JSON object a line; write its items a line each with: jq "
                       "-c '.[]' IN > OUT");
    }
    if (!parsed) throw_data_error(source_.path(), lines_.number(), filler_.problem());
    if (filler_.top_level() != "an object") {
      throw_data_error(source_.path(), lines_.number(),
                       "found " + std::string(filler_.top_level()) +
                           ", expected one JSON object a line; repair or remove the line");
    }
  }

  void check(size_t index, std::string_view line) const {
    const Slot& slot = slots_[index];
    if (slot.type == nullptr) {
      if (slot.required) refuse_missing(slot, line);
      return;
    }
    const std::string_view type = slot.type;
    const bool label = index == label_;
    const std::string name = "key " + shown(slot.key);
    if (label && (type == "null" || (type == "a string" && slot.value.empty()))) {
      if (!slot.required) return;
      throw_data_error(source_.path(), lines_.number(),
                       name + " is empty, expected a class; fill it in or remove the row");
    }
    if (slot.may_be_list && type == "a list") return check_items(index);
    const bool must_be_list = slot.may_be_list && !(label && label_shape_ == LabelShape::kClasses);
    if (!must_be_list && (type == "a string" || (label && (type == "a number" || type == "a boolean"))))
      return;
    const char* expected = must_be_list ? "a list" : label ? "a string, a number or a boolean" : "a string";
    throw_data_error(source_.path(), lines_.number(),
                     name + " is " + slot.type + ", expected " + expected + "; convert it, or set " +
                         slot.config_key + " to another key");
  }

  /// Words and fields are strings, positions numbers, labels what labels are; the label of an item may be
  /// null.
  void check_items(size_t index) const {
    const Slot& slot = slots_[index];
    const bool label = index == label_;
    const bool number = !label && item_kind_ >= ItemKind::kTokenPositions;
    for (size_t i = 0; i < slot.items.size(); ++i) {
      const std::string_view type = slot.item_types[i];
      const bool scalar_label = label && (type == "a string" || type == "a number" || type == "a boolean" ||
                                          (type == "null" && label_shape_ == LabelShape::kItems));
      const bool whole = number && type == "a number" &&
                         slot.items[i].find_first_not_of("0123456789") == std::string::npos &&
                         slot.items[i].size() < 10;
      if (scalar_label || whole || (!label && !number && type == "a string")) continue;
      throw_data_error(source_.path(), lines_.number(),
                       "item " + std::to_string(i) + " of key " + shown(slot.key) + " is " +
                           (number && type == "a number" ? slot.items[i] : std::string(type)) +
                           ", expected " +
                           (number  ? "a whole number from 0"
                            : label ? "a string, a number or a boolean"
                                    : "a string") +
                           "; convert it, or set " + slot.config_key + " to another key");
    }
  }

  [[noreturn]] void refuse_missing(const Slot& slot, std::string_view line) const {
    std::vector<std::string> keys;
    const Json object = Json::parse(line);
    for (const auto& [key, value] : object.items()) keys.push_back(key);
    throw_data_error(source_.path(), lines_.number(),
                     "no key " + shown(slot.key) + "; the object has: " + shown_list(keys) +
                         suggestion(slot.key, keys) + "; add it, or set " + slot.config_key +
                         " to one of them");
  }

  void take_items(Row& row) {
    row.items.clear();
    row.positions.clear();
    if (!items_) return;
    std::vector<std::string>& items = slots_[*items_].items;
    if (item_kind_ >= ItemKind::kTokenPositions) {
      for (const std::string& item : items) row.positions.push_back(std::stoll(item));
    } else {
      std::swap(row.items, items);
    }
  }

  void take_label(Row& row) {
    Slot& slot = slots_[label_];
    row.label.reset();
    row.labels.reset();
    if (slot.type == nullptr || slot.type != std::string_view("a list")) return take(slot, row.label);
    row.labels = std::move(slot.items);
    if (label_shape_ != LabelShape::kItems) return;
    const size_t num_items = std::max(row.items.size(), row.positions.size());
    if (row.labels->size() != num_items) {
      throw_data_error(source_.path(), lines_.number(),
                       "key " + shown(slot.key) + " has " + std::to_string(row.labels->size()) +
                           " labels for the " + std::to_string(num_items) + " items of key " +
                           shown(slots_[*items_].key) + ", expected one for each; correct the row");
    }
    if (item_kind_ == ItemKind::kWords) num_rewritten_ += rewrite_iob1(*row.labels);
  }

  static void take(Slot& slot, std::optional<std::string>& target) {
    if (slot.type == nullptr || slot.type == std::string_view("null") ||
        (!slot.required && slot.value.empty())) {
      target.reset();
      return;
    }
    if (!target) target.emplace();
    std::swap(*target, slot.value);
  }

  TextSource source_;
  LineScanner lines_;
  ItemKind item_kind_;
  LabelShape label_shape_;
  std::vector<Slot> slots_;
  size_t label_ = 0;
  std::optional<size_t> text_, pair_, items_;
  SlotFiller filler_;
  int64_t num_rewritten_ = 0;
  int64_t num_replaced_rows_ = 0;
};

}  // namespace

std::unique_ptr<RowReader> open_jsonl(const std::filesystem::path& path, const DataConfig& config,
                                      LabelPresence labels) {
  return std::make_unique<JsonlReader>(path, config, labels);
}

}  // namespace finetune
