#pragma once
#include <memory>

#include "topologies/device_graph.hpp"

namespace trainyard {

/// Finds paths through a fabric that is a tree: up to the lowest common switch, then down. Every HCA and switch must be
/// connected to the one switch above it after everything below it has been connected. Memory: 8 bytes a device.
std::unique_ptr<FabricRouter> tree_router(const DeviceGraph&);

}  // namespace trainyard
