#pragma once
#include <vector>

#include "sim/machine.hpp"

namespace trainyard {

/// The part of a machine that carries TCP: hosts and routers, and the full-duplex cables between them. It is a tree, so
/// that there is one path between two hosts. Nodes are numbered: the hosts from 0, then the routers.
struct PacketNetwork {
  struct Cable {
    int from = 0, to = 0;
    BytesPerSecond rate;  ///< of data in full frames, each way: what the machine says of its link
    Picoseconds latency;
  };
  /// What a link of the machine is: one direction of a cable.
  struct Direction {
    int from = -1, to = -1;
    Picoseconds latency;
  };

  int hosts = 0, routers = 0;
  std::vector<Cable> cables;
  Bytes port_buffer;  ///< what waits at a port before it drops what comes; 0: as ns-3 has it, 10,240 frames
  std::vector<Direction> directions;  ///< by link of the machine; of those that are no cables, or beyond the end: none

  /// Null: the link is none of its cables.
  const Direction* find(LinkId link) const {
    const auto at = static_cast<std::size_t>(link);
    return at < directions.size() && directions[at].from >= 0 ? &directions[at] : nullptr;
  }
};

}  // namespace trainyard
