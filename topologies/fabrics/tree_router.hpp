#pragma once
#include <memory>

#include "topologies/device_graph.hpp"

namespace trainyard {

/// Finds paths through a fabric that is a tree: up to the lowest common switch, then down. Every HCA and switch must have
/// been connected to the one switch above it after all that is below it. Memory: 8 bytes a device.
std::unique_ptr<FabricRouter> tree_router(const DeviceGraph&);

}  // namespace trainyard
