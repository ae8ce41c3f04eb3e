#pragma once
#include <optional>
#include <vector>

#include "models/hardware/node_parts.hpp"
#include "sim/program.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {

/// The shares of a checkpoint that ranks write, and their store. Each share first goes to the memory of the CPU that
/// the GPU is attached to. Once it has arrived completely, it goes on to the store: a network storage, or an NVMe
/// drive of the node.
struct CheckpointPlan {
  struct Share {
    Actor rank = 0;
    Bytes bytes;
  };
  std::vector<Share> shares;     ///< at most one for each rank
  std::optional<Storage> store;  ///< No value: the drives of the nodes, assigned to their ranks in turn
};

/// Divides the whole state into shares. If it is sharded, every rank has an equal share; otherwise the ranks that
/// together hold the model once (`holders`) do.
std::vector<CheckpointPlan::Share> checkpoint_shares(Bytes state, int ranks, bool sharded,
                                                     const std::vector<Actor>& holders);

struct CheckpointWrite {
  Seconds snapshot;  ///< until all shares are in host memory; training may go on while they are written
  Seconds write;     ///< until all shares are stored
};

/// Simulates the write of one checkpoint on an idle machine, message by message. Throws UserError if a node has no drive,
/// or if the shares do not fit into the store or a drive.
CheckpointWrite simulate_checkpoint_write(const ClusterSpec&, const SoftwareStack&, const CheckpointPlan&);
/// Simulates the reading of a checkpoint: every writer reads its share, and the time until the last has arrived is
/// returned. Other ranks receive their copy from a reader over the fabric; that time is not counted.
Seconds simulate_checkpoint_load(const ClusterSpec&, const SoftwareStack&, const CheckpointPlan&);
/// Simulates the copies of `bytes` of each GPU of a node to the memory of its socket, and back, while no other work runs.
Seconds simulate_host_copies(ClusterSpec, Bytes);

}  // namespace trainyard
