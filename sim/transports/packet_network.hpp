#pragma once
#include <map>
#include <vector>

#include "sim/machine.hpp"

namespace trainyard {

/// The part of a machine that carries TCP: hosts, routers, and the full-duplex cables between them. It is a tree: there
/// is one path between two hosts. Nodes are numbered: hosts from 0, then routers.
struct PacketNetwork {
  struct Cable {
    int from = 0, to = 0;
    BytesPerSecond rate;  ///< rate of data in full frames, in each direction: that of the machine's link
    Picoseconds latency;
  };
  /// A link of the machine as one direction of a cable.
  struct Direction {
    int from = -1, to = -1;
    Picoseconds latency;
  };

  int hosts = 0, routers = 0;
  std::vector<Cable> cables;
  Bytes port_buffer;  ///< bytes that wait at a port before it drops packets; 0: the default of ns-3, 10,240 frames
  std::vector<Direction> directions;  ///< each link's direction; `from` −1, or beyond the end: the link is no cable

  /// Returns null if the link is not a cable.
  const Direction* find(LinkId link) const {
    const auto position = static_cast<std::size_t>(link);
    return position < directions.size() && directions[position].from >= 0 ? &directions[position] : nullptr;
  }
};

/// A machine whose routes exclude the latency of the cables that packets cross: each packet pays it there, including
/// acknowledgements. Everything else is as in the base machine.
class PacketRoutes : public Machine {
 public:
  /// The machine and the network must outlive the routes.
  PacketRoutes(Machine& base, const PacketNetwork& network) : base_(base), network_(network) {}

  std::span<const Link> links() const override { return base_.links(); }
  Cost price(const Work& work, Actor actor) const override { return base_.price(work, actor); }
  Route route(Actor from, Actor to, PathClass path_class) const override;
  const Contention* contention() const override { return base_.contention(); }
  std::uint64_t equivalence_class(Actor actor) const override { return base_.equivalence_class(actor); }
  void link_state(LinkId link, bool up) override { base_.link_state(link, up); }
  std::string cause_of_cut(Actor from, Actor to) const override { return base_.cause_of_cut(from, to); }
  std::string actor_name(Actor actor) const override { return base_.actor_name(actor); }

 private:
  Machine& base_;
  const PacketNetwork& network_;
  mutable std::map<const Leg*, std::vector<Leg>> legs_;  // indexed by the base machine's legs; routes refer to them

  Picoseconds cable_latency(std::span<const LinkUse>) const;
};

}  // namespace trainyard
