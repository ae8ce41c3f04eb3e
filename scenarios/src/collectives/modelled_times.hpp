#pragma once
#include "models/software/stack.hpp"
#include "strategies/collectives/collective_settings.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {

/// Times of a modelled collective on an otherwise idle machine. They equal those of run_collective, but routes are
/// found once for all sizes. Not for all-to-all, which has many pairs and is simulated folded.
class ModelledTimes {
 public:
  /// The collective runs on ranks 0 … ranks−1.
  ModelledTimes(const ClusterSpec&, const SoftwareStack&, Operation, const CollectiveSettings&, int ranks);

  Seconds time(Bytes size) const;

 private:
  Operation operation_;
  CollectiveSettings settings_;
  int ranks_;
  double seconds_per_byte_ = 0;  ///< time of a byte over an edge of weight 1, on the links with the highest load
};

}  // namespace trainyard
