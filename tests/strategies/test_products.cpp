// Products of matrices in memory, with any instructions.
#include <catch2/catch.hpp>

#include <array>
#include <cmath>

#include "sim/error.hpp"
#include "strategies/values/layers/product.hpp"

namespace strategies_test_products {

using namespace trainyard;
using Eigen::Index;
using Eigen::MatrixXd;
using numeric::MatrixView;
using numeric::times;

namespace {

MatrixXd product_by_loops(const MatrixXd& a, const MatrixXd& b) {
  MatrixXd product = MatrixXd::Zero(a.rows(), b.cols());
  for (Index i = 0; i < a.rows(); ++i)
    for (Index j = 0; j < b.cols(); ++j)
      for (Index k = 0; k < a.cols(); ++k) product(i, j) += a(i, k) * b(k, j);
  return product;
}

MatrixXd numbers(Index rows, Index columns) {
  return MatrixXd::NullaryExpr(rows, columns, [](Index i, Index j) { return std::sin(double(3 * i + 7 * j + 1)); });
}

}  // namespace

TEST_CASE("products of matrices, blocks and their transposes equal those of plain loops", "[values][products]") {
  for (const auto& [rows, inner, columns] : {std::array<Index, 3>{1, 1, 1}, {5, 3, 2}, {33, 70, 17}, {64, 300, 1}}) {
    CAPTURE(rows, inner, columns);
    const MatrixXd a = numbers(rows, inner), b = numbers(inner, columns), a_transposed = a.transpose(),
                   b_transposed = b.transpose();
    const MatrixXd expected = product_by_loops(a, b);
    CHECK(times(a, b, "").isApprox(expected, 1e-12));
    CHECK(times(a_transposed.transpose(), b, "").isApprox(expected, 1e-12));
    CHECK(times(a, b_transposed.transpose(), "").isApprox(expected, 1e-12));
    CHECK(times(a_transposed.transpose(), b_transposed.transpose(), "").isApprox(expected, 1e-12));
    const MatrixXd wide = numbers(rows + 4, inner + 3);
    CHECK(times(wide.block(2, 1, rows, inner), b, "")
              .isApprox(product_by_loops(wide.block(2, 1, rows, inner), b), 1e-12));
    CHECK(times(a.leftCols(0), b.topRows(0), "").isApprox(MatrixXd::Zero(rows, columns)));
  }
  CHECK_THROWS_AS(times(numbers(2, 3), numbers(2, 3), "a wrong cut"), InternalError);
}

}  // namespace strategies_test_products
