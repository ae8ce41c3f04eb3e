#pragma once
#include <string>

#include "models/hardware/node_type.hpp"

namespace trainyard {

/// Returns the rate at which an HCA of the node puts frames on the wire: the lower of its own rate and the rate of its
/// PCIe slot. A slot has the node's `device_lanes` (16 lanes if not stated). In a "graph" node the slot is the fastest
/// wire of an HCA.
BytesPerSecond slot_rate(const NodeType&);

/// Returns the rate at which data arrive if an HCA of the node sends at `rate`: less if the network loses frames.
BytesPerSecond delivered_rate(const NodeType&, BytesPerSecond rate);

/// Returns the rate at which data of an HCA of the node arrive.
BytesPerSecond adapter_rate(const NodeType&);

/// Returns " capped by its slot at 504 Gbit/s", or by the port of a switch with this rate (0: no limit); "": it is not.
std::string cap_in_words(const NodeType&, BytesPerSecond switch_rate);

/// Does any wire of the node carry NVLink?
bool has_nvlink(const NodeType&);

/// Returns the NVLink rate, per direction, of the GPU with the lowest one: through NVSwitch, or the sum over its links
/// to other GPUs. 0: it has no NVLink.
BytesPerSecond least_nvlink(const NodeType&);

}  // namespace trainyard
