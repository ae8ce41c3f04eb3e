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

/// A number that is not there.
constexpr double kGone = std::numeric_limits<double>::quiet_NaN();

/// A rank's place in the group that makes an exchange, and the two buffers on which the exchange works: all but
/// all_to_all and ring_shift have their input in `result` too.
struct ExchangeSide {
  int index = 0, of = 1;
  Eigen::VectorXd* result = nullptr;
  Eigen::VectorXd* input = nullptr;
};

/// What one rank computes for one micro-batch in one layer, both passes: matrices by name, each computed when it is
/// first asked for. An exchange is a node whose value comes from other ranks: whoever runs the schedule has the rank
/// fill in its part, and when the node is asked for, the other ranks' parts must have arrived. A result that is not
/// there is an InternalError; one that is there too early or from a wrong rank is simply wrong.
class Graph {
 public:
  using Compute = std::function<Matrix()>;

  void node(const std::string& name, Compute);
  /// The identity where the layer's lists do not have this exchange.
  void exchange(const std::string& name, const std::string& source);
  /// Names of the exchanges that the layer's lists have.
  void list(const std::vector<Exchange>&);
  bool listed(const std::string& name) const { return listed_.count(name) > 0; }
  bool has(const std::string& name) const { return computes_.count(name) > 0 || sources_.count(name) > 0; }

  const Matrix& operator[](const std::string& name);
  /// Instead of what the node would compute.
  void give(const std::string& name, Matrix value) { values_[name] = std::move(value); }

  /// The exchange is about to start. all_reduce: the tensor; all_gather: the own block of `of`; reduce_scatter: all
  /// blocks; all_to_all: `of` equal blocks; ring_shift: what the next rank is to get. What is not filled in is NaN.
  void fill(const Exchange&, const ExchangeSide&);
  /// All exchanges of the pass are over: takes their results out of the buffers.
  void end_pass();
  void forget(const std::string& name) { values_.erase(name); }
  void forget_all() { values_.clear(); }

 private:
  struct Open {
    Exchanged what;
    ExchangeSide side;
    Index rows, columns;
  };
  std::map<std::string, Compute> computes_;
  std::map<std::string, std::string> sources_;  // of exchanges
  std::map<std::string, Matrix> values_;
  std::map<std::string, Open> open_;
  std::set<std::string> listed_;

  static Matrix result(const std::string& name, const Open&);
};

/// a + b. Throws InternalError where they do not fit (of shards: a wrong cut).
Matrix plus(const Matrix& a, const Matrix& b, const std::string& what);

}  // namespace trainyard::numeric
