#include "strategies/values/sums.hpp"

#include "sim/error.hpp"

namespace trainyard {

void RankSums::put(Actor rank, std::uint16_t buffer, const Eigen::VectorXd& values) {
  Turns& turns = buffers_[buffer];
  Sum& sum = turns.sums[turns.put[rank]++];
  if (sum.put++ == 0)
    sum.values = values;
  else
    sum.values += values;
}

const Eigen::VectorXd& RankSums::take(Actor rank, std::uint16_t buffer) {
  Turns& turns = buffers_[buffer];
  const auto at = turns.sums.find(turns.taken[rank]++);
  if (at == turns.sums.end() || at->second.put != ranks_)
    throw InternalError("a sum is taken before all ranks have given their part");
  if (++at->second.taken < ranks_) return at->second.values;
  last_ = std::move(at->second.values);
  turns.sums.erase(at);
  return last_;
}

}  // namespace trainyard
