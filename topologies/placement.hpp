#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "topologies/device_graph.hpp"

namespace trainyard {

/// Rule by which the nodes of a job are chosen among the free nodes of a cluster.
enum class Placement : std::uint8_t {
  packed,  ///< the fewest leaf switches, and among single leaves the fullest one that has room (best fit, as Slurm's
           ///< topology/tree plugin chooses)
  spread,  ///< one node after the other on the leaf switch with the most free nodes
  fragmented,  ///< free nodes drawn at random: what a cluster leaves over that has long been in use
};
const std::vector<std::string>& placement_names();  ///< names in scenarios, in the order of the values

/// Returns the leaf switch next to the first adapter of each node; −1: the node has no adapter on a switch.
std::vector<DeviceId> leaf_of_nodes(const DeviceGraph&, int nodes);

/// Chooses `count` nodes in ascending order and marks them as taken. `leaves`: leaf switch of each node. `seed`: seed of
/// random choices. At least `count` nodes must be free.
std::vector<int> choose_nodes(int count, Placement, const std::vector<DeviceId>& leaves, std::vector<bool>& taken,
                              std::uint64_t seed);

}  // namespace trainyard
