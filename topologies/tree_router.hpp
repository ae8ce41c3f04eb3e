#pragma once
#include <memory>

#include "topologies/device_graph.hpp"

namespace trainyard {

/// Finds paths through a fabric that is a tree: up to the lowest common switch, then down. Every HCA and every switch
/// but the top must have one wire to a switch with a greater device id: the switch above it. Memory: 8 bytes a device.
std::unique_ptr<FabricRouter> tree_router(const DeviceGraph&);

}  // namespace trainyard
