#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "sim/error.hpp"

namespace trainyard::folding {

/// Many short lists, one after the other in one block of memory.
template <class T>
class Rows {
 public:
  std::size_t size() const { return first_.size() - 1; }
  std::size_t elements() const { return all_.size(); }  ///< number of elements of all rows
  std::span<const T> operator[](std::size_t row) const { return {all_.data() + first_[row], length(row)}; }
  std::span<T> operator[](std::size_t row) { return {all_.data() + first_[row], length(row)}; }
  void add(std::span<const T> row) {
    all_.insert(all_.end(), row.begin(), row.end());
    first_.push_back(place_of(all_.size()));
  }
  /// Keeps, of all rows, the elements for which a function returns true. The function may change them.
  template <class Keep>
  void keep_if(Keep keep) {
    Place place = 0, next = 0;
    for (std::size_t row = 0; row < size(); ++row) {
      const Place end = first_[row + 1];
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
  using Place = std::uint32_t;  // there are many short rows
  std::vector<Place> first_{0};
  std::vector<T> all_;

  static Place place_of(std::size_t index) {
    if (index > std::numeric_limits<Place>::max()) throw InternalError("rows with more than 4 billion elements");
    return static_cast<Place>(index);
  }
  std::size_t length(std::size_t row) const { return first_[row + 1] - first_[row]; }
};

}  // namespace trainyard::folding
