#pragma once
#include <Eigen/Core>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "models/networks/layers/exchange.hpp"

namespace trainyard::numeric {

using Eigen::Index;
using Matrix = Eigen::MatrixXd;

/// The value of an element that a rank does not have.
constexpr double kGone = std::numeric_limits<double>::quiet_NaN();

/// A rank's index in the group of an exchange, the size of the group, and the two buffers of the exchange. Only
/// all_to_all and ring_shift use `input`; the others also take their input from `result`.
struct ExchangeSide {
  int index = 0, size = 1;
  Eigen::VectorXd* result = nullptr;
  Eigen::VectorXd* input = nullptr;
};

/// The computation of one rank for one micro-batch in one layer, in both passes: matrices by name, each computed at its
/// first use. An exchange is a node whose value comes from other ranks: when the schedule starts the exchange, the rank
/// fills in its part; when the node is used, the parts of the other ranks must have arrived. A missing result is an
/// InternalError. A result that arrives too early or from a wrong rank gives wrong values.
class Graph {
 public:
  using Compute = std::function<Matrix()>;

  void node(const std::string& name, Compute);
  /// Adds an exchange of node `source`. If the layer's lists do not have this exchange, its value is that of `source`.
  void exchange(const std::string& name, const std::string& source);
  /// Adds the exchanges of one of the layer's lists.
  void list(const std::vector<Exchange>&);
  bool is_listed(const std::string& name) const { return listed_.contains(name); }
  bool has(const std::string& name) const { return computes_.contains(name) || sources_.contains(name); }

  const Matrix& operator[](const std::string& name);
  /// Sets the value of a node, which is not computed then.
  void give(const std::string& name, Matrix value) { values_[name] = std::move(value); }

  /// Fills the buffers when an exchange is about to start. all_reduce: the tensor; all_gather: the rank's own block;
  /// reduce_scatter: all blocks; all_to_all: one equal block for each rank; ring_shift: the values for the next rank.
  /// All other elements are NaN.
  void fill(const Exchange&, const ExchangeSide&);
  /// Takes the results out of the buffers when all exchanges of the pass are over.
  void end_pass();
  void forget(const std::string& name) { values_.erase(name); }
  void forget_all() { values_.clear(); }

 private:
  struct OpenExchange {
    ExchangeKind kind;
    ExchangeSide side;
    Index rows, columns;
  };
  std::map<std::string, Compute> computes_;
  std::map<std::string, std::string> sources_;  // source node by exchange
  std::map<std::string, Matrix> values_;
  std::map<std::string, OpenExchange> open_;
  std::set<std::string> listed_;

  static Matrix result(const std::string& name, const OpenExchange&);
};

/// Returns a + b. Throws InternalError if their sizes differ, which is the sign of a wrong sharding.
Matrix plus(const Matrix& a, const Matrix& b, const std::string& what);

}  // namespace trainyard::numeric
