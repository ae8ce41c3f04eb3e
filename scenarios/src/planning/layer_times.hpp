#pragma once
#include "models/networks/layers/network.hpp"
#include "models/software/stack.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {

/// Returns the time of the forward and backward pass of one micro-batch through a layer, on an otherwise idle GPU of
/// this node, without exchanges.
Seconds layer_time(const Layer&, const NodeType&, const SoftwareStack&);

/// Returns the time in which a host that runs ahead launches the kernels of these passes; 0 for other hosts and with
/// CUDA graphs. A stage whose kernels are shorter takes this time.
Seconds launch_time(const Layer&, const NodeType&, const SoftwareStack&);

/// Returns the time to add a layer's gradients of one micro-batch to those of earlier ones. `element_work`: work of one
/// element.
Seconds accumulation_time(const Layer&, const Work& element_work, const NodeType&, const SoftwareStack&);

}  // namespace trainyard
