#pragma once
#include <cstddef>
#include <span>
#include <vector>

namespace trainyard::folding {

/// Many short lists, one after the other in one block of memory.
template <class T>
class Rows {
 public:
  std::size_t size() const { return first_.size() - 1; }
  std::span<const T> operator[](std::size_t row) const { return {all_.data() + first_[row], length(row)}; }
  std::span<T> operator[](std::size_t row) { return {all_.data() + first_[row], length(row)}; }
  void add(std::span<const T> row) {
    all_.insert(all_.end(), row.begin(), row.end());
    first_.push_back(all_.size());
  }
  /// Keeps, of all rows, the elements for which a function returns true. The function may change them.
  template <class Keep>
  void keep_if(Keep keep) {
    std::size_t place = 0, next = 0;
    for (std::size_t row = 0; row < size(); ++row) {
      const std::size_t end = first_[row + 1];
      first_[row] = place;
      for (; next < end; ++next)
        if (keep(all_[next])) all_[place++] = all_[next];
    }
    first_.back() = place;
    all_.resize(place);
    all_.shrink_to_fit();
    first_.shrink_to_fit();
  }

 private:
  std::vector<std::size_t> first_{0};
  std::vector<T> all_;

  std::size_t length(std::size_t row) const { return first_[row + 1] - first_[row]; }
};

}  // namespace trainyard::folding
