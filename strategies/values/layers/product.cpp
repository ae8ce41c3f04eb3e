#include "strategies/values/layers/product.hpp"

#include <fmt/format.h>

#include "sim/error.hpp"
#include "strategies/values/layers/product_kernel.hpp"

namespace trainyard::numeric {
namespace {

ProductKernel best_kernel() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return product_avx2;
#endif
  return eigen_product;
}

ProductOperand operand(const MatrixView& v) {
  return {v.data, v.transposed ? v.columns : v.rows, v.transposed ? v.rows : v.columns, v.stride, v.transposed};
}

}  // namespace

void multiply(const MatrixView& a, const MatrixView& b, double* out, const std::string& what) {
  if (a.columns != b.rows)
    throw InternalError(fmt::format("{}: {} x {} and {} x {} do not fit", what, a.rows, a.columns, b.rows, b.columns));
  static const ProductKernel kernel = best_kernel();
  kernel(operand(a), operand(b), out);
}

Eigen::MatrixXd times(const MatrixView& a, const MatrixView& b, const std::string& what) {
  Eigen::MatrixXd product(a.rows, b.columns);
  multiply(a, b, product.data(), what);
  return product;
}

}  // namespace trainyard::numeric
