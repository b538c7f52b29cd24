#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace finetune {

/// A column of strings of which many are equal, such as labels: four bytes a row, and each distinct string
/// once (of the first `kMostShared`; a column of so many different ones keeps the rest as they come).
class StringColumn {
 public:
  using value_type = std::string;
  static constexpr size_t kMostShared = size_t{1} << 16;

  class const_iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = std::string;
    using difference_type = std::ptrdiff_t;
    using pointer = const std::string*;
    using reference = const std::string&;
    const_iterator(const StringColumn& column, size_t row) : column_(&column), row_(row) {}
    reference operator*() const { return (*column_)[row_]; }
    const_iterator& operator++() {
      ++row_;
      return *this;
    }
    bool operator==(const const_iterator& other) const { return row_ == other.row_; }

   private:
    const StringColumn* column_;
    size_t row_;
  };

  StringColumn() = default;
  StringColumn(std::initializer_list<std::string_view> values) {
    for (const std::string_view value : values) push_back(value);
  }
  StringColumn(const StringColumn& other) { append(other); }
  StringColumn(StringColumn&&) = default;
  StringColumn& operator=(StringColumn other) {
    strings_.swap(other.strings_);
    places_.swap(other.places_);
    indices_.swap(other.indices_);
    return *this;
  }

  size_t size() const { return indices_.size(); }
  bool empty() const { return indices_.empty(); }
  const std::string& operator[](size_t row) const { return strings_[indices_[row]]; }
  const_iterator begin() const { return {*this, 0}; }
  const_iterator end() const { return {*this, size()}; }

  void push_back(std::string_view value);
  void append(const StringColumn& other);
  /// Fills up with empty strings.
  void resize(size_t count);

 private:
  std::deque<std::string> strings_;  ///< never moved: `places_` has views of them
  std::unordered_map<std::string_view, uint32_t> places_;
  std::vector<uint32_t> indices_;
};

}  // namespace finetune
