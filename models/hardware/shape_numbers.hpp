#pragma once
#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "sim/error.hpp"

namespace trainyard {

/// Gives numbers from `first` on to the shapes of kernels. A shape has the same number in all threads, because a `Work`
/// that holds the number must mean the same to all of them.
template <class Shape>
class ShapeNumbers {
 public:
  /// `what` names the kernels in errors, for example "matrix products". `most` is the largest number of shapes.
  ShapeNumbers(std::uint16_t first, std::size_t most, const char* what) : first_(first), most_(most), what_(what) {
    shapes_.reserve(most);  // shapes never move, so that a thread can read one while another adds one
  }

  /// Throws UserError past `most` shapes.
  std::uint16_t number_of(const Shape& shape) {
    const std::lock_guard lock(mutex_);
    if (const auto entry = numbers_.find(shape); entry != numbers_.end()) return entry->second;
    if (shapes_.size() >= most_) throw UserError(fmt::format("more than {} shapes of {} in one process", most_, what_));
    const auto number = static_cast<std::uint16_t>(first_ + shapes_.size());
    shapes_.push_back(shape);
    numbers_.emplace(shape, number);
    count_.store(shapes_.size(), std::memory_order_release);
    return number;
  }

  /// Throws InternalError if no shape has that number.
  const Shape& shape_of(std::uint16_t number) const {
    if (number < first_ || static_cast<std::size_t>(number - first_) >= count_.load(std::memory_order_acquire))
      throw InternalError(fmt::format("kernel {} is none of the {}", number, what_));
    return *(shapes_.data() + (number - first_));
  }

 private:
  std::uint16_t first_;
  std::size_t most_;
  const char* what_;
  std::mutex mutex_;
  std::vector<Shape> shapes_;
  std::atomic<std::size_t> count_ = 0;
  std::map<Shape, std::uint16_t> numbers_;
};

}  // namespace trainyard
