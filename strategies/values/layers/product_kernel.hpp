#pragma once
#include <Eigen/Core>
#include <cstddef>

namespace trainyard::numeric {

/// A product as a kernel takes it: operands as they lie in memory, column-major.
struct ProductOperand {
  const double* data;
  std::ptrdiff_t rows, columns, stride;
  bool transposed;
};
using ProductKernel = void (*)(const ProductOperand& a, const ProductOperand& b, double* out);

/// Eigen's product for the instructions that the including file is compiled for, and of that file alone: the linker must
/// not mix it with another's. For the same reason a file for other instructions than the rest renames Eigen's namespace.
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

/// For processors with AVX2 and FMA.
void product_avx2(const ProductOperand& a, const ProductOperand& b, double* out);

}  // namespace trainyard::numeric
