#pragma once
#include <vector>

#include "scenarios/src/lessons/lesson_view.hpp"
#include "sim/units.hpp"

namespace trainyard {

/// y = x w of an m x k and a k x n matrix on threads: each has rows of x and all of w, or all of x and columns of w.
struct ProductShape {
  int m = 3, k = 3, n = 3, threads = 3;
  bool by_rows = true;
  Bytes element{4};

  int parted() const { return by_rows ? m : n; }  ///< rows of x or columns of w, which the threads share
};

struct ProductThread {
  int first = 0, count = 0;    ///< rows of x, or columns of w
  double x = 0, w = 0, y = 0;  ///< bytes that it holds
  double flops = 0;            ///< multiplications and additions
  double held() const { return x + w + y; }
};

/// The product as it ran, on numbers.
struct ProductLesson {
  ProductShape shape;
  std::vector<ProductThread> threads;
  double extra_buffer = 0;      ///< bytes that the caller needs to gather slices that do not lie in one piece
  double moved = 0;             ///< bytes to the threads and back
  std::vector<double> x, w, y;  ///< row by row
  bool right = false;           ///< y equals the product

  double w_copies() const;
  /// Pieces that a thread's part of y is written to, each so many elements long.
  int pieces(const ProductThread&) const;
};

/// Simulates it.
ProductLesson teach_product(const ProductShape&);

LessonView lesson_view(const ProductLesson&);

}  // namespace trainyard
