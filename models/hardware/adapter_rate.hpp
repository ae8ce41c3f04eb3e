#pragma once
#include "models/hardware/node_type.hpp"

namespace trainyard {

/// What an HCA of the node sends and receives at: its own rate, or that of its slot where that is lower. A slot is as wide
/// as the node says of its devices (16 lanes where it says nothing); of a graph it is the fastest wire of an HCA.
BytesPerSecond adapter_rate(const NodeType&);

}  // namespace trainyard
