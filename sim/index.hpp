#pragma once
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace trainyard {

/// Index of an element in its table, as a type of its own, so that a transfer's index cannot index the flows.
template <class Tag>
class TypedIndex {
 public:
  constexpr TypedIndex() = default;  ///< no element
  template <std::integral Number>
  constexpr explicit TypedIndex(Number number) : number_(static_cast<std::uint32_t>(number)) {}

  constexpr std::uint32_t number() const { return number_; }
  constexpr explicit operator bool() const { return number_ != kNone; }
  constexpr TypedIndex& operator++() {
    ++number_;
    return *this;
  }
  constexpr auto operator<=>(const TypedIndex&) const = default;

 private:
  static constexpr std::uint32_t kNone = 0xffffffffU;
  std::uint32_t number_ = kNone;
};

template <class Tag>
constexpr std::size_t position(TypedIndex<Tag> id) {
  return id.number();
}
template <std::integral Number>
constexpr std::size_t position(Number id) {
  return static_cast<std::size_t>(id);
}

/// Returns the numbers first, first + 1, …: `count` of them.
template <std::integral Number, std::integral Count>
std::vector<Number> consecutive_numbers(Number first, Count count) {
  std::vector<Number> numbers(position(count));
  for (Number& number : numbers) number = first++;
  return numbers;
}

/// A vector whose elements are numbered by `Id`: a TypedIndex, or a plain number such as Actor and LinkId.
template <class T, class Id>
class IndexedVector : public std::vector<T> {
 public:
  using std::vector<T>::vector;
  using std::vector<T>::size;
  T& operator[](Id id) { return std::vector<T>::operator[](position(id)); }
  const T& operator[](Id id) const { return std::vector<T>::operator[](position(id)); }
  /// Returns the index after the last one: for (Id id{0}; id < v.end_id(); ++id).
  Id end_id() const { return static_cast<Id>(size()); }
  bool contains(Id id) const { return position(id) < size(); }  ///< false for negative numbers too
  /// Returns null if there is no such element.
  const T* find(Id id) const { return contains(id) ? &(*this)[id] : nullptr; }
  /// Returns the element. Grows the table first if it is too small.
  T& grown(Id id) {
    if (!contains(id)) this->resize(position(id) + 1);
    return (*this)[id];
  }
};

/// A table of elements that are acquired and released. A released element is reused, with its contents, before the
/// table grows.
template <class T, class Id>
class Pool {
 public:
  Id acquire() {
    if (free_.empty()) {
      items_.emplace_back();
      return Id{items_.size() - 1};
    }
    const Id id = free_.back();
    free_.pop_back();
    return id;
  }
  void release(Id id) { free_.push_back(id); }

  T& operator[](Id id) { return items_[id]; }
  const T& operator[](Id id) const { return items_[id]; }
  std::size_t in_use() const { return items_.size() - free_.size(); }
  /// Number of all elements, including released ones.
  std::size_t size() const { return items_.size(); }
  Id end_id() const { return items_.end_id(); }
  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }

 private:
  IndexedVector<T, Id> items_;
  std::vector<Id> free_;
};

}  // namespace trainyard
