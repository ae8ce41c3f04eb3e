#include "strategies/values/layers/attention.hpp"

#include <cmath>
#include <limits>

#include "sim/error.hpp"
#include "strategies/values/layers/product.hpp"

namespace trainyard::numeric {
namespace {

constexpr double kRotaryBase = 10000;

bool attends(const AttentionHeads& h, const Tokens& queries, std::size_t q, const Tokens& keys, std::size_t k) {
  if (queries.sample[q] != keys.sample[k]) return false;
  const Index back = queries.position[q] - keys.position[k];
  return (!h.causal || back >= 0) && (h.window == 0 || back < h.window);
}

/// Scores of one head: queries × keys, −∞ for keys that a query does not attend to.
Matrix scores(const AttentionHeads& h, const Eigen::Ref<const Matrix>& q, const Eigen::Ref<const Matrix>& k,
              const Tokens& queries, const Tokens& keys) {
  Matrix s = times(q.transpose(), k, "scores") / std::sqrt(static_cast<double>(h.width));
  for (Index i = 0; i < s.rows(); ++i)
    for (Index j = 0; j < s.cols(); ++j)
      if (!attends(h, queries, static_cast<std::size_t>(i), keys, static_cast<std::size_t>(j)))
        s(i, j) = -std::numeric_limits<double>::infinity();
  return s;
}

void check(const AttentionHeads& h, const Matrix& q, const Matrix& kv, const Tokens& queries, const Tokens& keys) {
  if (q.rows() != h.query_rows() || kv.rows() != 2 * h.key_rows() || q.cols() != queries.size() ||
      kv.cols() != keys.size())
    throw InternalError("attention: queries, keys and their tokens do not fit");
}

}  // namespace

Matrix attend(const AttentionHeads& h, const Matrix& q, const Matrix& kv, const Tokens& queries, const Tokens& keys) {
  check(h, q, kv, queries, keys);
  Matrix out(h.query_rows() + h.heads, q.cols());
  for (Index head = 0; head < h.heads; ++head) {
    const Index shared = head * h.key_value_heads / h.heads * h.width;
    Matrix p = scores(h, q.middleRows(head * h.width, h.width), kv.middleRows(shared, h.width), queries, keys);
    const Eigen::VectorXd largest = p.rowwise().maxCoeff();
    p = (p.colwise() - largest).array().exp();
    const Eigen::VectorXd sums = p.rowwise().sum();
    out.middleRows(head * h.width, h.width) =
        times(kv.middleRows(h.key_rows() + shared, h.width), p.transpose(), "attended");
    out.middleRows(head * h.width, h.width).array().rowwise() /= sums.transpose().array();
    out.row(h.query_rows() + head) = (largest.array() + sums.array().log()).transpose();
  }
  return out;
}

AttentionGradient attend_gradient(const AttentionHeads& h, const Matrix& q, const Matrix& kv, const Tokens& queries,
                                  const Tokens& keys, const Matrix& attended, const Matrix& out_gradient) {
  check(h, q, kv, queries, keys);
  if (out_gradient.rows() != h.query_rows() || out_gradient.cols() != q.cols())
    throw InternalError("attention: output and gradient differ in size");
  AttentionGradient d{Matrix::Zero(q.rows(), q.cols()), Matrix::Zero(kv.rows(), kv.cols())};
  const double scale = 1 / std::sqrt(static_cast<double>(h.width));
  for (Index head = 0; head < h.heads; ++head) {
    const Index first = head * h.width, key = head * h.key_value_heads / h.heads * h.width, value = h.key_rows() + key;
    const auto dout = out_gradient.middleRows(first, h.width);
    Matrix p = scores(h, q.middleRows(first, h.width), kv.middleRows(key, h.width), queries, keys);
    p = (p.colwise() - attended.row(h.query_rows() + head).transpose()).array().exp();
    const Eigen::VectorXd along = dout.cwiseProduct(attended.middleRows(first, h.width)).colwise().sum().transpose();
    Matrix ds = times(dout.transpose(), kv.middleRows(value, h.width), "gradient of scores");
    ds.colwise() -= along;
    ds = scale * ds.cwiseProduct(p);
    d.q.middleRows(first, h.width) += times(kv.middleRows(key, h.width), ds.transpose(), "gradient of queries");
    d.kv.middleRows(key, h.width) += times(q.middleRows(first, h.width), ds, "gradient of keys");
    d.kv.middleRows(value, h.width) += times(dout, p, "gradient of values");
  }
  return d;
}

Matrix apply_rotary(const Matrix& x, Index width, const Tokens& tokens, double sign) {
  if (x.cols() != tokens.size() || x.rows() % width != 0) throw InternalError("rotary: rows or tokens do not fit");
  Matrix y = x;
  const Index half = width / 2;
  for (Index column = 0; column < x.cols(); ++column)
    for (Index i = 0; i < half; ++i) {
      const double position = static_cast<double>(tokens.position[column]);
      const double exponent = -2 * static_cast<double>(i) / static_cast<double>(width);
      const double angle = sign * position * std::pow(kRotaryBase, exponent);
      for (Index head = 0; head < x.rows(); head += width) {
        const double a = x(head + i, column), b = x(head + i + half, column);
        y(head + i, column) = a * std::cos(angle) - b * std::sin(angle);
        y(head + i + half, column) = b * std::cos(angle) + a * std::sin(angle);
      }
    }
  return y;
}

}  // namespace trainyard::numeric
