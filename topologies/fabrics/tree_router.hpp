#pragma once
#include <memory>

#include "topologies/device_graph.hpp"

namespace trainyard {

/// Ways through a fabric that is a tree: up until both ends have the same switch above them, then down. Every HCA and
/// switch was connected to what is above it by one wire, after all that is below it. Memory: 8 bytes a device.
std::unique_ptr<FabricRouter> tree_router(const DeviceGraph&);

}  // namespace trainyard
