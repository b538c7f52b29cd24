#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

namespace finetune {

/// A one-dimensional array in host memory: either its own, which may grow, or part of storage that it shares
/// and never writes to, such as a mapped file. Copying copies the former and shares the latter. A large array
/// grows by moving its pages, not their content: it never needs room for two of itself.
template <typename T>
class HostArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  using value_type = T;
  using const_iterator = const T*;
  using iterator = const_iterator;

  HostArray() = default;
  HostArray(std::initializer_list<T> values) { append(values.begin(), values.end()); }
  HostArray(const std::vector<T>& values) { append(values.data(), values.data() + values.size()); }
  /// `values` lie in storage that `owner` keeps alive.
  HostArray(std::span<const T> values, std::shared_ptr<const void> owner)
      : shared_(values.data()), size_(values.size()), owner_(std::move(owner)) {}

  HostArray(const HostArray& other) : shared_(other.shared_), owner_(other.owner_) {
    if (other.owner_) {
      size_ = other.size_;
    } else {
      append(other.begin(), other.end());
    }
  }
  HostArray(HostArray&& other) noexcept { swap(other); }
  HostArray& operator=(HostArray other) noexcept {
    swap(other);
    return *this;
  }

  const T* data() const { return owner_ ? shared_ : own_.get(); }
  size_t size() const { return size_; }
  size_t num_bytes() const { return size_ * sizeof(T); }
  bool empty() const { return size_ == 0; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  const T& operator[](size_t index) const { return data()[index]; }
  const T& front() const { return data()[0]; }
  const T& back() const { return data()[size_ - 1]; }

  /// Those that grow it throw `std::logic_error` where the storage is shared.
  void push_back(T value) {
    if (size_ >= capacity_) grow(size_ + 1);
    own_.get()[size_++] = value;
  }
  void append(const T* first, const T* last) {
    const auto count = static_cast<size_t>(last - first);
    if (count == 0) return;
    if (size_ + count > capacity_) grow(size_ + count);
    std::memcpy(own_.get() + size_, first, count * sizeof(T));
    size_ += count;
  }

  /// What keeps the elements alive at `data()`; from now on the storage is shared.
  std::shared_ptr<const void> share() {
    if (!owner_) {
      shared_ = own_.get();
      owner_ = std::shared_ptr<T>(own_.release(), Free());
      capacity_ = 0;
    }
    return owner_;
  }

  bool operator==(const HostArray& other) const {
    return std::equal(begin(), end(), other.begin(), other.end());
  }

 private:
  struct Free {
    void operator()(T* memory) const { std::free(memory); }
  };

  void grow(size_t count) {
    if (owner_) throw std::logic_error("a shared array cannot grow");
    const size_t capacity = std::max(count, capacity_ + capacity_ / 2);
    void* memory = std::realloc(own_.get(), capacity * sizeof(T));
    if (memory == nullptr) throw std::bad_alloc();
    static_cast<void>(own_.release());
    own_.reset(static_cast<T*>(memory));
    capacity_ = capacity;
  }

  void swap(HostArray& other) noexcept {
    std::swap(own_, other.own_);
    std::swap(shared_, other.shared_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    std::swap(owner_, other.owner_);
  }

  std::unique_ptr<T, Free> own_;
  const T* shared_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
  std::shared_ptr<const void> owner_;
};

}  // namespace finetune
