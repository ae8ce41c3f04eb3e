#pragma once
#include <string>
#include <utility>
#include <vector>

#include "models/fitted/nccl_between.hpp"

namespace trainyard {

/// One operation between the nodes of one system over a range of sizes.
struct NcclSweep {
  std::string system, source;
  NcclCall call;  ///< without its size
  NcclInside inside;
  std::vector<std::pair<Bytes, Seconds>> rows;
};

struct NcclNetworkFit {
  NcclNetwork network;
  std::vector<std::string> unidentified;  ///< keys of figures that the rows do not determine, or hardly
};

/// Fits one kind of network to sweeps over it. Minimizes the errors |log(predicted / measured)|, of at most 1 each, and
/// the distances of some figures from usual values, by a pattern search from fixed starts. Sizes from 64 MiB on count
/// twice. Deterministic. If the sweeps determine only one of the shares of rings and trees, the other equals it. If
/// they do not determine the share of pairs, it is the smaller of those two. Throws UserError if there are no sweeps.
NcclNetworkFit fit_nccl_network(const std::string& name, const std::vector<NcclSweep>&);

/// A row, and the error of its prediction by a fit to the other sources.
struct LeftOutRow {
  std::size_t sweep = 0, row = 0;  ///< indices of the sweep, and of the row in it
  double error = 0;                ///< predicted / measured − 1
};
/// Leaves each source out in turn, fits the others, and returns the errors of the source's rows. The result is empty if
/// there is only one source.
std::vector<LeftOutRow> left_out_errors(const NcclNetwork& fitted, const std::vector<NcclSweep>&);

/// Below this size, a collective is "small" in reports of errors: start-up dominates its time.
constexpr Bytes kSmallCollective{64.0 * 1024};
/// From this size on, a collective is "large" in reports of errors: NCCL has reached its rate.
constexpr Bytes kLargeCollective{64.0 * 1024 * 1024};

}  // namespace trainyard
