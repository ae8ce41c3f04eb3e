#pragma once
#include <vector>

#include "models/software/stack.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {

/// A stage on devices of its own, data rank by data rank the tensor ranks of each.
struct PlacedStage {
  std::vector<int> ranks;                      ///< of the cluster
  int tensor = 1, data = 1;                    ///< their product: the ranks
  double forward = 0, backward = 0, tail = 0;  ///< s: passes of a micro-batch; what comes after the last one
  double output = 0;                           ///< bytes of a micro-batch that the next stage needs, once
};

/// s: a step of stages on unequally many devices under 1F1B, simulated message by message on the cluster. A rank gets the
/// samples that it works on from ranks of the stage before that have them, tensor rank by tensor rank in turn; gradients go
/// the same way back. Passes take what they are given.
double uneven_step(const ClusterSpec&, const SoftwareStack&, const std::vector<PlacedStage>&, int micro_batches);

}  // namespace trainyard
