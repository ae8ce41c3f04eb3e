#pragma once
#include <Eigen/Core>
#include <string>

namespace trainyard::numeric {

/// A matrix in memory, column-major, or its transpose: of a Matrix, a Map, a block of columns or rows, or the transpose
/// of one of them. What it shows must outlive it.
struct MatrixView {
  const double* data = nullptr;
  Eigen::Index rows = 0, columns = 0;  ///< as they are multiplied
  Eigen::Index stride = 0;             ///< elements from one column in memory to the next
  bool transposed = false;             ///< memory holds the transpose

  template <class Derived>
  MatrixView(const Eigen::DenseBase<Derived>& of)
      : data(of.derived().data()),
        rows(of.rows()),
        columns(of.cols()),
        stride(of.derived().outerStride()),
        transposed(Derived::IsRowMajor) {
    static_assert(Derived::InnerStrideAtCompileTime == 1, "columns, or rows of a transpose, lie in one piece");
  }
};

/// a · b, by the vector instructions that this processor has. Throws InternalError where they do not fit (of shards: a
/// wrong cut).
Eigen::MatrixXd times(const MatrixView& a, const MatrixView& b, const std::string& what);
/// The same into `out`, of a.rows × b.columns elements, column-major and without gaps. `out` is neither of them.
void multiply(const MatrixView& a, const MatrixView& b, double* out, const std::string& what);

}  // namespace trainyard::numeric
