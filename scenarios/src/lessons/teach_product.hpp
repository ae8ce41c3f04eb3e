#pragma once
#include <vector>

#include "scenarios/src/lessons/lesson_view.hpp"
#include "sim/units.hpp"

namespace trainyard {

/// The product y = x w of an m x k and a k x n matrix, computed by threads. Each thread has some rows of x and all of
/// w, or all of x and some columns of w.
struct ProductShape {
  int m = 3, k = 3, n = 3, threads = 3;
  bool by_rows = true;
  Bytes element{4};

  /// Returns the number of rows of x, or of columns of w, which are divided among the threads.
  int slices() const { return by_rows ? m : n; }
};

struct ProductThread {
  int first = 0, count = 0;    ///< its range of rows of x, or of columns of w
  double x = 0, w = 0, y = 0;  ///< bytes of each matrix that it stores
  double flops = 0;            ///< number of multiplications and additions
  double stored_bytes() const { return x + w + y; }
};

/// The simulated product, computed on numbers.
struct ProductLesson {
  ProductShape shape;
  std::vector<ProductThread> threads;
  double extra_buffer = 0;      ///< bytes of the caller's buffer for slices that are not contiguous
  double moved = 0;             ///< bytes sent to the threads and back
  std::vector<double> x, w, y;  ///< elements, row by row
  bool right = false;           ///< y equals the product

  double weight_copies() const;
  /// Number of contiguous pieces into which a thread's part of y is written.
  int pieces(const ProductThread&) const;
};

/// Simulates the product.
ProductLesson teach_product(const ProductShape&);

LessonView lesson_view(const ProductLesson&);

}  // namespace trainyard
