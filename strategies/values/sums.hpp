#pragma once
#include <Eigen/Core>
#include <cstdint>
#include <map>
#include <vector>

#include "sim/op.hpp"

namespace trainyard {

/// Sums over all ranks, made where no message carries values: of each buffer one after the other, as ranks put their
/// parts in and take the sum out.
class RankSums {
 public:
  explicit RankSums(int ranks) : ranks_(ranks) {}

  void put(Actor rank, std::uint16_t buffer, const Eigen::VectorXd& values);
  /// The sum that the rank's next turn of this buffer is about. Throws InternalError before all have put theirs in.
  const Eigen::VectorXd& take(Actor rank, std::uint16_t buffer);

 private:
  struct Sum {
    Eigen::VectorXd values;
    int put = 0, taken = 0;
  };
  struct Turns {
    std::map<int, Sum> sums;          // by turn
    std::map<Actor, int> put, taken;  // by rank: turns
  };
  int ranks_;
  std::map<std::uint16_t, Turns> buffers_;
  Eigen::VectorXd last_;
};

}  // namespace trainyard
