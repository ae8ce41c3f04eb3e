#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "models/hardware/storage.hpp"
#include "sim/program.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {

/// Who writes how much of a checkpoint, and where to. Each writer's share goes to the memory of the CPU that its GPU
/// hangs at, and from there, when it has come whole, to the store: a network storage, or an NVMe drive of the node.
struct CheckpointPlan {
  struct Share {
    Actor rank = 0;
    Bytes bytes;
  };
  std::vector<Share> shares;     ///< a rank once at most
  std::optional<Storage> store;  ///< none: the drives of the nodes, dealt out to their ranks in turn
};

/// Of the whole state: every rank an equal share, or where it is not sharded those that hold the model once (`holders`).
std::vector<CheckpointPlan::Share> checkpoint_shares(Bytes state, int ranks, bool sharded,
                                                     const std::vector<Actor>& holders);

struct CheckpointWrite {
  Seconds snapshot;  ///< until all shares are in host memory: training may go on while they are written
  Seconds write;     ///< until all are stored
  Bytes fullest;     ///< the most that one store, or one drive, has taken
};

/// One checkpoint written on an idle machine; simulated message by message. One simulation a process: call it in a
/// child. Throws UserError where there is no drive, or the store's or a drive's capacity does not hold its part.
CheckpointWrite simulate_checkpoint_write(const ClusterSpec&, const SoftwareStack&, const CheckpointPlan&);
/// The way back: every writer reads its share. What other ranks hold as well they get from it over the fabric, as they
/// do in a step; that is not counted.
Seconds simulate_checkpoint_load(const ClusterSpec&, const SoftwareStack&, const CheckpointPlan&);

}  // namespace trainyard
