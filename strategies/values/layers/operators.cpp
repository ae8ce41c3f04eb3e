#include "strategies/values/layers/operators.hpp"

#include <cmath>

#include "sim/error.hpp"
#include "strategies/values/layers/product.hpp"

namespace trainyard::numeric {
namespace {

constexpr double kNormEpsilon = 1e-5;

/// Columns with mean 0 (layer_norm) and mean square 1, and the divisors that were applied to them.
struct NormalizedColumns {
  Matrix values;
  Eigen::RowVectorXd deviation;
};

NormalizedColumns normalize(const Matrix& x, Index width, Norm kind) {
  NormalizedColumns n{Eigen::Map<const Matrix>(x.data(), width, x.size() / width), {}};
  if (kind == Norm::layer_norm) n.values.rowwise() -= n.values.colwise().mean().eval();
  n.deviation = (n.values.colwise().squaredNorm().array() / static_cast<double>(width) + kNormEpsilon).sqrt();
  n.values.array().rowwise() /= n.deviation.array();
  return n;
}

Matrix norm_gradient(const NormalizedColumns& n, const Matrix& out_gradient, const Eigen::VectorXd& weight, Norm kind) {
  Matrix d = weight.asDiagonal() * Eigen::Map<const Matrix>(out_gradient.data(), n.values.rows(), n.values.cols());
  const Eigen::RowVectorXd along = d.cwiseProduct(n.values).colwise().mean();
  if (kind == Norm::layer_norm) d.rowwise() -= d.colwise().mean().eval();
  d -= n.values * along.asDiagonal();
  d.array().rowwise() /= n.deviation.array();
  return Eigen::Map<const Matrix>(d.data(), out_gradient.rows(), out_gradient.cols());
}

void require_same_size(const Matrix& a, const Matrix& b, const std::string& what) {
  if (a.rows() != b.rows() || a.cols() != b.cols()) throw InternalError(what + ": value and gradient differ in size");
}

/// Calls visit(group, its first column, number of its columns) for each group of `columns` columns.
template <class Visit>
void visit_groups(const LinearNodes& n, Index columns, Visit visit) {
  const std::vector<Index> starts = n.starts ? n.starts() : std::vector<Index>{0, columns};
  for (Index group = 0; group < n.groups; ++group) visit(group, starts[group], starts[group + 1] - starts[group]);
}

double gelu(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }
double gelu_slope(double x) {
  const double inner = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x), t = std::tanh(inner);
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double silu(double x) { return x * sigmoid(x); }
double silu_slope(double x) { return sigmoid(x) * (1 + x * (1 - sigmoid(x))); }
double relu(double x) { return x > 0 ? x : 0; }
double relu_slope(double x) { return x > 0 ? 1 : 0; }
double tangent(double x) { return std::tanh(x); }
double tangent_slope(double x) { return 1 - std::tanh(x) * std::tanh(x); }

Matrix log_softmax(const Matrix& logits) {
  const Matrix shifted = logits.rowwise() - logits.colwise().maxCoeff();
  return shifted.rowwise() - Eigen::RowVectorXd(shifted.array().exp().colwise().sum().log());
}

}  // namespace

std::string gradient_of(const std::string& tensor) { return "gradient " + tensor; }

void norm(Graph& g, const LayerShard& s, const NormNodes& n) {
  const std::string weight = n.name + ".weight", bias = n.name + ".bias";
  const auto normed_input = [&g, &s, n, weight] { return normalize(g[n.in], s.matrix(weight).size(), n.kind); };
  g.node(n.name, [&g, &s, n, weight, bias, normed_input] {
    Matrix y = s.matrix(weight).col(0).asDiagonal() * normed_input().values;
    if (n.kind == Norm::layer_norm) y.colwise() += s.matrix(bias).col(0);
    return Matrix(Eigen::Map<const Matrix>(y.data(), g[n.in].rows(), g[n.in].cols()));
  });
  g.node(n.name + ".d", [&g, &s, n, weight, normed_input] {
    require_same_size(g[n.in], g[n.out_gradient], n.name);
    return norm_gradient(normed_input(), g[n.out_gradient], s.matrix(weight).col(0), n.kind);
  });
  g.node(gradient_of(weight), [&g, n, normed_input] {
    require_same_size(g[n.in], g[n.out_gradient], n.name);
    const Matrix values = normed_input().values;
    return Matrix(Eigen::Map<const Matrix>(g[n.out_gradient].data(), values.rows(), values.cols())
                      .cwiseProduct(values)
                      .rowwise()
                      .sum());
  });
  if (n.kind == Norm::layer_norm)
    g.node(gradient_of(bias), [&g, &s, n, bias] {
      const Matrix& dy = g[n.out_gradient];
      const Index width = s.matrix(bias).size();
      return Matrix(Eigen::Map<const Matrix>(dy.data(), width, dy.size() / width).rowwise().sum());
    });
}

void linear(Graph& g, const LayerShard& s, const LinearNodes& n) {
  const std::string weight = n.name + ".weight", bias = n.name + ".bias";
  g.node(n.name, [&g, &s, n, weight, bias] {
    const Matrix& in = g[n.in];
    Matrix y(s.matrix(weight, 0, n.groups).rows(), in.cols());
    visit_groups(n, in.cols(), [&](Index group, Index first, Index count) {
      multiply(s.matrix(weight, group, n.groups), in.middleCols(first, count), y.data() + first * y.rows(), n.name);
    });
    if (n.bias) y.colwise() += s.matrix(bias).col(0);
    return y;
  });
  g.node(n.name + ".d", [&g, &s, n, weight] {
    const Matrix& dy = g[n.out_gradient];
    Matrix dx(s.matrix(weight, 0, n.groups).cols(), dy.cols());
    visit_groups(n, dy.cols(), [&](Index group, Index first, Index count) {
      multiply(s.matrix(weight, group, n.groups).transpose(), dy.middleCols(first, count),
               dx.data() + first * dx.rows(), n.name + ".d");
    });
    return dx;
  });
  g.node(gradient_of(weight), [&g, &s, n, weight] {
    const Matrix &in = g[n.in_for_weights], &dy = g[n.out_gradient];
    if (in.cols() != dy.cols()) throw InternalError(n.name + ": input and gradient are of different tokens");
    const Eigen::Map<const Matrix> w = s.matrix(weight, 0, n.groups);
    Matrix gradient(w.rows(), w.cols() * n.groups);
    visit_groups(n, in.cols(), [&](Index group, Index first, Index count) {
      multiply(dy.middleCols(first, count), in.middleCols(first, count).transpose(), gradient.data() + group * w.size(),
               n.name + " gradient");
    });
    return gradient;
  });
  if (n.bias) g.node(gradient_of(bias), [&g, n] { return Matrix(g[n.out_gradient].rowwise().sum()); });
}

void add_bias(Graph& g, const LayerShard& s, const std::string& tensor, const std::string& name, const std::string& in,
              const std::string& out_gradient) {
  g.node(name, [&g, &s, tensor, in] { return Matrix(g[in].colwise() + s.matrix(tensor).col(0)); });
  g.node(gradient_of(tensor), [&g, out_gradient] { return Matrix(g[out_gradient].rowwise().sum()); });
}

void sum(Graph& g, const std::string& name, const std::string& a, const std::string& b) {
  g.node(name, [&g, name, a, b] { return plus(g[a], g[b], name); });
}

Activation find_activation(const std::string& name) {
  if (name.rfind("gelu", 0) == 0) return {gelu, gelu_slope};
  if (name == "silu" || name == "swish") return {silu, silu_slope};
  if (name == "relu") return {relu, relu_slope};
  if (name == "tanh") return {tangent, tangent_slope};
  throw InternalError("values know no activation " + name);
}

void feed_forward(Graph& g, const LayerShard& s, const FeedForwardNodes& f) {
  const std::string p = f.prefix, last = p + (f.gated ? "down" : "fc2"), hidden = p + "ffn.hidden", dh = last + ".d";
  const Activation a = find_activation(f.activation);
  LinearNodes in{.name = {},
                 .in = f.in,
                 .in_for_weights = f.in_for_weights,
                 .out_gradient = {},
                 .bias = f.bias,
                 .groups = f.groups,
                 .starts = f.starts};
  const auto first = [&g, &s, &in](const std::string& name) {
    in.name = name;
    in.out_gradient = name + ".out.d";
    linear(g, s, in);
  };
  if (f.gated) {
    const bool fused = s.has(p + "gate_up.weight");
    if (fused) {
      first(p + "gate_up");
      g.node(p + "gate.value", [&g, p] { return Matrix(g[p + "gate_up"].topRows(g[p + "gate_up"].rows() / 2)); });
      g.node(p + "up.value", [&g, p] { return Matrix(g[p + "gate_up"].bottomRows(g[p + "gate_up"].rows() / 2)); });
      g.node(p + "gate_up.out.d", [&g, p] {
        const Matrix &gate = g[p + "gate.out.d"], &up = g[p + "up.out.d"];
        Matrix both(gate.rows() + up.rows(), gate.cols());
        both << gate, up;
        return both;
      });
      g.node(p + "ffn.in.d", [&g, p] { return g[p + "gate_up.d"]; });
    } else {
      for (const std::string& name : {p + "gate", p + "up"}) {
        first(name);
        g.node(name + ".value", [&g, name] { return g[name]; });
      }
      sum(g, p + "ffn.in.d", p + "gate.d", p + "up.d");
    }
    g.node(hidden,
           [&g, p, a] { return Matrix(g[p + "gate.value"].unaryExpr(a.value).cwiseProduct(g[p + "up.value"])); });
    g.node(p + "up.out.d",
           [&g, p, a, dh] { return Matrix(g[p + "gate.value"].unaryExpr(a.value).cwiseProduct(g[dh])); });
    g.node(p + "gate.out.d", [&g, p, a, dh] {
      return Matrix(g[p + "gate.value"].unaryExpr(a.slope).cwiseProduct(g[p + "up.value"]).cwiseProduct(g[dh]));
    });
  } else {
    first(p + "fc1");
    g.node(hidden, [&g, p, a] { return Matrix(g[p + "fc1"].unaryExpr(a.value)); });
    g.node(p + "fc1.out.d", [&g, p, a, dh] { return Matrix(g[p + "fc1"].unaryExpr(a.slope).cwiseProduct(g[dh])); });
    g.node(p + "ffn.in.d", [&g, p] { return g[p + "fc1.d"]; });
  }
  linear(g, s,
         {.name = last,
          .in = hidden,
          .in_for_weights = hidden,
          .out_gradient = f.out_gradient,
          .groups = f.groups,
          .starts = f.starts});
  g.node(p + "ffn.out", [&g, last] { return g[last]; });
}

Matrix softmax(const Matrix& logits) { return log_softmax(logits).array().exp(); }

double softmax_loss(const Matrix& logits, const Matrix& targets) {
  return -targets.cwiseProduct(log_softmax(logits)).sum();
}

Matrix softmax_loss_gradient(const Matrix& logits, const Matrix& targets) {
  return softmax(logits) * targets.colwise().sum().asDiagonal() - targets;
}

}  // namespace trainyard::numeric
