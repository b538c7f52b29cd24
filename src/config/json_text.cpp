#include "json_text.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "finetune/core/text.h"

namespace finetune::config {
namespace {

/// Reads a text and counts, through all its copies, how far the parser has come.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* position, size_t* count) : position_(position), count_(count) {}
  reference operator*() const { return *position_; }
  CountingIterator& operator++() {
    ++position_;
    ++*count_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& other) const { return position_ == other.position_; }

 private:
  const char* position_;
  size_t* count_;
};

/// Builds the value and notes keys that come twice. The parser's position is where it stands when a callback
/// comes: for a key, just behind its closing quote.
class Builder : public nlohmann::json_sax<Json> {
 public:
  Builder(std::string_view text, const size_t& position, JsonText& result)
      : text_(text), position_(position), result_(result) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    Level& level = levels_.back();
    level.key = name;
    const auto [first, is_new] = level.lines.emplace(name, line(position_));
    if (!is_new) result_.duplicates.push_back({pointer(), line(position_), first->second});
    return true;
  }

  bool parse_error(std::size_t offset, const std::string&,
                   const nlohmann::detail::exception& error) override {
    std::string message = error.what();
    // "[json.exception.parse_error.101] parse error at line 3, column 5: syntax error while ...": place and
    // library are said by us.
    if (const size_t place = message.find(": "); message.find("parse error at") != std::string::npos) {
      message.erase(0, place + 2);
    } else if (const size_t bracket = message.find("] "); bracket != std::string::npos) {
      message.erase(0, bracket + 2);
    }
    if (after_comma(offset)) message += "; remove the comma before it";
    return fail(message, offset);
  }

 private:
  struct Level {
    Json* container;
    std::string key;
    std::map<std::string, int> lines;
  };

  static constexpr size_t kDeepest = 64;

  bool fail(const std::string& message, size_t offset) {
    const std::string_view read = text_.substr(0, offset);
    const size_t line_start = read.rfind('\n') + 1;  // npos + 1 is 0
    const size_t column = std::max<size_t>(1, read.size() - line_start);
    result_.error = std::to_string(line(offset)) + ":" + std::to_string(column) + ": " + message;
    return false;
  }

  /// Whether the character before `offset` closes an object or list right behind a comma.
  bool after_comma(size_t offset) const {
    if (offset < 2 || offset > text_.size()) return false;
    if (text_[offset - 1] != '}' && text_[offset - 1] != ']') return false;
    const size_t before = text_.find_last_not_of(" \t\r\n", offset - 2);
    return before != std::string_view::npos && text_[before] == ',';
  }

  int line(size_t offset) const {
    const std::string_view read = text_.substr(0, offset);
    return 1 + static_cast<int>(std::count(read.begin(), read.end(), '\n'));
  }

  std::string pointer() const {
    std::string result;
    for (const Level& level : levels_) {
      const bool list = level.container->is_array();
      result = extend_pointer(result, list ? std::to_string(level.container->size() - 1) : level.key);
    }
    return result;
  }

  Json& place(Json value) {
    if (levels_.empty()) return result_.value = std::move(value);
    Level& level = levels_.back();
    if (level.container->is_object()) return (*level.container)[level.key] = std::move(value);
    level.container->push_back(std::move(value));
    return level.container->back();
  }

  bool add(Json value) {
    place(std::move(value));
    return true;
  }

  bool open(Json container) {
    if (levels_.size() == kDeepest)
      return fail("nested more than " + std::to_string(kDeepest) + " levels deep", position_);
    Json& placed = place(std::move(container));
    levels_.push_back({&placed, "", {}});
    return true;
  }

  bool close() {
    levels_.pop_back();
    return true;
  }

  std::string_view text_;
  const size_t& position_;
  JsonText& result_;
  std::vector<Level> levels_;
};

}  // namespace

JsonText parse_json_text(std::string_view text) {
  JsonText result;
  if (const size_t bad = find_invalid_utf8(text); bad != std::string_view::npos) {
    const auto before = text.substr(0, bad);
    const size_t line_start = before.rfind('\n') + 1;
    result.error = std::to_string(1 + std::count(before.begin(), before.end(), '\n')) + ":" +
                   std::to_string(bad - line_start + 1) + ": not UTF-8 (byte offset " + std::to_string(bad) +
                   "); save the file as UTF-8";
    return result;
  }
  size_t position = 0;
  Builder builder(text, position, result);
  constexpr bool kStrict = true;
  constexpr bool kIgnoreComments = true;
  Json::sax_parse(CountingIterator(text.data(), &position),
                  CountingIterator(text.data() + text.size(), &position), &builder,
                  nlohmann::json::input_format_t::json, kStrict, kIgnoreComments);
  return result;
}

std::string extend_pointer(const std::string& pointer, std::string_view token) {
  std::string escaped;
  for (const char c : token) {
    if (c == '~') {
      escaped += "~0";
    } else if (c == '/') {
      escaped += "~1";
    } else {
      escaped += c;
    }
  }
  const std::string quoted = Json(escaped).dump(-1, ' ', false, Json::error_handler_t::replace);
  return pointer + "/" + quoted.substr(1, quoted.size() - 2);
}

}  // namespace finetune::config
