// This file alone is compiled with -mavx2 -mfma (CMakeLists.txt).
#define Eigen EigenForAvx2
#include "strategies/values/layers/product_kernel.hpp"

namespace trainyard::numeric {

void product_avx2(const ProductOperand& a, const ProductOperand& b, double* out) { eigen_product(a, b, out); }

}  // namespace trainyard::numeric
