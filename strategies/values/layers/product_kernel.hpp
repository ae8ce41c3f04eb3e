#pragma once
#include <Eigen/Core>
#include <cstddef>

namespace trainyard::numeric {

/// An operand of a product kernel: a column-major matrix in memory. `rows` and `columns` are those in memory.
struct ProductOperand {
  const double* data;
  std::ptrdiff_t rows, columns, stride;
  bool transposed;
};
using ProductKernel = void (*)(const ProductOperand& a, const ProductOperand& b, double* out);

/// Eigen's product, compiled for the instructions of the including file. It is static so that the linker does not mix
/// the versions of different files. For the same reason a file with other instructions than the rest renames Eigen's
/// namespace.
static void eigen_product(const ProductOperand& a, const ProductOperand& b, double* out) {
  using Matrix = Eigen::MatrixXd;
  using View = Eigen::Map<const Matrix, 0, Eigen::OuterStride<>>;
  const View x(a.data, a.rows, a.columns, Eigen::OuterStride<>(a.stride));
  const View y(b.data, b.rows, b.columns, Eigen::OuterStride<>(b.stride));
  Eigen::Map<Matrix> product(out, a.transposed ? a.columns : a.rows, b.transposed ? b.rows : b.columns);
  if (a.transposed && b.transposed)
    product.noalias() = x.transpose() * y.transpose();
  else if (a.transposed)
    product.noalias() = x.transpose() * y;
  else if (b.transposed)
    product.noalias() = x * y.transpose();
  else
    product.noalias() = x * y;
}

/// The product for processors with AVX2 and FMA.
void product_avx2(const ProductOperand& a, const ProductOperand& b, double* out);

}  // namespace trainyard::numeric
