#pragma once
#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "models/hardware/kernel_shapes.hpp"
#include "sim/error.hpp"

namespace trainyard {

/// Gives numbers from `first` on to the shapes of kernels. A shape has the same number in all threads, because a `Work`
/// that holds the number must mean the same to all of them. The last numbers are those of temporary shapes, which mean
/// something to one thread only (see `TemporaryShapes`).
template <class Shape>
class ShapeNumbers {
 public:
  static constexpr std::size_t kTemporary = 512;  ///< number of temporary shapes of a thread; further ones last

  /// `what` names the kernels in errors, for example "matrix products". `most` is the largest number of shapes.
  ShapeNumbers(std::uint16_t first, std::size_t most, const char* what)
      : first_(first), most_(most - kTemporary), what_(what) {
    shapes_.reserve(most_);  // shapes never move, so that a thread can read one while another adds one
  }

  /// Throws UserError past the largest number of shapes.
  std::uint16_t number_of(const Shape& shape) {
    const std::lock_guard lock(mutex_);
    if (const auto entry = numbers_.find(shape); entry != numbers_.end()) return entry->second;
    if (TemporaryShapes::exist())
      if (const std::optional<std::uint16_t> number = temporary_number_of(shape)) return *number;
    if (shapes_.size() >= most_) throw UserError(fmt::format("more than {} shapes of {} in one process", most_, what_));
    const auto number = static_cast<std::uint16_t>(first_ + shapes_.size());
    shapes_.push_back(shape);
    numbers_.emplace(shape, number);
    count_.store(shapes_.size(), std::memory_order_release);
    return number;
  }

  /// Throws InternalError if no shape has that number.
  const Shape& shape_of(std::uint16_t number) const {
    if (is_temporary(number)) {
      const Temporaries& mine = temporaries();
      if (const std::size_t place = number - first_ - most_; place < mine.shapes.size()) return mine.shapes[place];
    } else if (number >= first_ && static_cast<std::size_t>(number - first_) < count_.load(std::memory_order_acquire)) {
      return *(shapes_.data() + (number - first_));
    }
    throw InternalError(fmt::format("kernel {} is none of the {}", number, what_));
  }

  bool is_temporary(std::uint16_t number) const {
    return number >= first_ && static_cast<std::size_t>(number - first_) >= most_;
  }

  /// Frees all numbers if half of them are taken. Returns whether it did. No kernel may have one of them.
  bool free_if_half_full() {
    const std::lock_guard lock(mutex_);
    if (shapes_.size() < most_ / 2) return false;
    count_.store(0, std::memory_order_release);
    shapes_.clear();
    numbers_.clear();
    return true;
  }

 private:
  struct Temporaries {
    std::uint64_t generation = 0;
    std::vector<Shape> shapes;
    std::map<Shape, std::uint16_t> numbers;
  };
  std::uint16_t first_;
  std::size_t most_;
  const char* what_;
  std::mutex mutex_;
  std::vector<Shape> shapes_;
  std::atomic<std::size_t> count_ = 0;
  std::map<Shape, std::uint16_t> numbers_;

  /// Returns the thread's temporary shapes, without those of earlier generations.
  static Temporaries& temporaries() {
    thread_local Temporaries mine;
    if (mine.generation != TemporaryShapes::generation()) {
      mine = {TemporaryShapes::generation(), {}, {}};
      mine.shapes.reserve(kTemporary);
    }
    return mine;
  }

  /// No value: all temporary numbers are taken.
  std::optional<std::uint16_t> temporary_number_of(const Shape& shape) {
    Temporaries& mine = temporaries();
    if (const auto entry = mine.numbers.find(shape); entry != mine.numbers.end()) return entry->second;
    if (mine.shapes.size() >= kTemporary) return std::nullopt;
    const auto number = static_cast<std::uint16_t>(first_ + most_ + mine.shapes.size());
    mine.shapes.push_back(shape);
    mine.numbers.emplace(shape, number);
    return number;
  }
};

}  // namespace trainyard
