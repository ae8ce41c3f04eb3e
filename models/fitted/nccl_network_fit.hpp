#pragma once
#include <string>
#include <utility>
#include <vector>

#include "models/fitted/nccl_way.hpp"

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
  std::vector<std::string> unidentified;  ///< keys of figures that the rows do not tell, or hardly
};

/// Fits one kind of network to sweeps over it: least mean |log(predicted / measured)| of each sweep, sizes from 64 MiB on
/// twice, by a pattern search from fixed starts. Deterministic. A share that no sweep tells is that of the rings, else of
/// the trees. Throws UserError without rows.
NcclNetworkFit fit_nccl_network(const std::string& name, const std::vector<NcclSweep>&);

/// The same with each source left out in turn: errors |predicted / measured − 1| of its rows by the fit to the others.
/// One source alone leaves nothing to fit: none.
struct LeftOutRow {
  std::size_t sweep = 0, row = 0;
  double error = 0;
};
std::vector<LeftOutRow> left_out_errors(const NcclNetwork& fitted, const std::vector<NcclSweep>&);

/// "Large" where errors are told apart by size: there NCCL is at its rate.
constexpr Bytes kLargeCollective{64.0 * 1024 * 1024};

}  // namespace trainyard
