#pragma once
#include "models/networks/layers/network.hpp"
#include "models/software/stack.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {

/// Forward and backward pass of one micro-batch through a layer, on a GPU of this node with nothing beside it: kernels
/// as they are priced, without what ranks exchange.
Seconds layer_time(const Layer&, const NodeType&, const SoftwareStack&);

/// Adding a layer's gradients of one micro-batch to those of earlier ones; `of_element` is the work of one element.
Seconds accumulation_time(const Layer&, const Work& of_element, const NodeType&, const SoftwareStack&);

}  // namespace trainyard
