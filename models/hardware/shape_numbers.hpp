#pragma once
#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "sim/error.hpp"

namespace trainyard {

/// Numbers from `first` on for shapes of kernels: the same number whenever a shape is asked for, by whatever thread, since
/// what a `Work` says must mean the same to all that read it.
template <class Shape>
class ShapeNumbers {
 public:
  /// `what`: "matrix products". At most `most` shapes.
  ShapeNumbers(std::uint16_t first, std::size_t most, const char* what) : first_(first), most_(most), what_(what) {
    shapes_.reserve(most);  // they stay where they are: who has a number reads its shape while others are added
  }

  /// Throws UserError past `most` shapes.
  std::uint16_t number_of(const Shape& shape) {
    const std::lock_guard lock(mutex_);
    if (const auto known = numbers_.find(shape); known != numbers_.end()) return known->second;
    if (shapes_.size() >= most_) throw UserError(fmt::format("more than {} shapes of {} in one process", most_, what_));
    const auto number = static_cast<std::uint16_t>(first_ + shapes_.size());
    shapes_.push_back(shape);
    numbers_.emplace(shape, number);
    count_.store(shapes_.size(), std::memory_order_release);
    return number;
  }

  /// Throws InternalError for a number that stands for none.
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
