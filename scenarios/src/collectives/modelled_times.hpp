#pragma once
#include <memory>

#include "models/software/stack.hpp"
#include "strategies/collectives/collective_settings.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {

/// What a modelled collective takes on a machine that does nothing else: what run_collective gives, but the ways are
/// found once for all sizes. Not for all-to-all, whose pairs are many: these are simulated folded.
class ModelledTimes {
 public:
  /// On ranks 0 … ranks−1.
  ModelledTimes(const ClusterSpec&, const SoftwareStack&, Operation, const CollectiveSettings&, int ranks);

  Seconds time(Bytes size) const;

 private:
  Operation operation_;
  CollectiveSettings settings_;
  int ranks_;
  double seconds_per_byte_ = 0;  ///< of a byte over an edge of weight 1, by the links that all ways load most
};

}  // namespace trainyard
