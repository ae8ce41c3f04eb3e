#pragma once
#include <Eigen/Core>
#include <string>

namespace trainyard::numeric {

/// A view of a column-major matrix in memory, or of its transpose: of a Matrix, a Map, a block of columns or rows, or
/// the transpose of one of them. The matrix must outlive the view.
struct MatrixView {
  const double* data = nullptr;
  Eigen::Index rows = 0, columns = 0;  ///< size of the view, after transposition
  Eigen::Index stride = 0;             ///< number of elements from one column in memory to the next
  bool transposed = false;             ///< memory holds the transpose

  template <class Derived>
  MatrixView(const Eigen::DenseBase<Derived>& matrix)
      : data(matrix.derived().data()),
        rows(matrix.rows()),
        columns(matrix.cols()),
        stride(matrix.derived().outerStride()),
        transposed(Derived::IsRowMajor) {
    static_assert(Derived::InnerStrideAtCompileTime == 1, "columns, or rows of a transpose, lie in one piece");
  }
};

/// a · b, with the vector instructions of this processor. Throws InternalError with `what` if the sizes do not match,
/// which is the sign of a wrong sharding.
Eigen::MatrixXd times(const MatrixView& a, const MatrixView& b, const std::string& what);
/// Writes a · b to `out`: a.rows × b.columns elements, column-major and without gaps. `out` must not overlap a or b.
void multiply(const MatrixView& a, const MatrixView& b, double* out, const std::string& what);

}  // namespace trainyard::numeric
