#pragma once
#include <cstdint>

namespace trainyard {

/// While one lives, the thread numbers new shapes of kernels only until it dies. Kernels that are priced at once and never
/// simulated, such as those of engines, therefore take none of the process's numbers.
class TemporaryShapes {
 public:
  TemporaryShapes();
  ~TemporaryShapes();
  TemporaryShapes(const TemporaryShapes&) = delete;
  TemporaryShapes& operator=(const TemporaryShapes&) = delete;
  static bool exist();  ///< has this thread one?
  /// Returns a number that changes whenever the thread's earlier temporary shapes are gone.
  static std::uint64_t generation();
};

/// Registers a function that frees the numbers of one kind of shapes if half of them are taken.
struct RegisterShapes {
  explicit RegisterShapes(void (*free_half_full)());
};

/// An answer of a process that gives many, whose kernels are gone when it is over. If no other answer is under way and
/// half of the numbers of shapes are taken, the constructor frees them.
class ShapeScope {
 public:
  ShapeScope();
  ~ShapeScope();
  ShapeScope(const ShapeScope&) = delete;
  ShapeScope& operator=(const ShapeScope&) = delete;
};

}  // namespace trainyard
