#pragma once
#include <map>
#include <vector>

#include "sim/transports/packet_network.hpp"

namespace trainyard {

/// A machine whose routes lack the latency of the cables that packets cross: each packet pays it there, acknowledgements
/// too. All else is the machine's own.
class PacketRoutes : public Machine {
 public:
  /// Both must outlive it.
  PacketRoutes(Machine& base, const PacketNetwork& network) : base_(base), network_(network) {}

  std::span<const Link> links() const override { return base_.links(); }
  Cost price(const Work& work, Actor actor) const override { return base_.price(work, actor); }
  Route route(Actor from, Actor to, PathClass path_class) const override;
  const Contention* contention() const override { return base_.contention(); }
  const KnownGroup* known_group(const GroupFlow& group) const override { return base_.known_group(group); }
  std::uint64_t likeness(Actor actor) const override { return base_.likeness(actor); }
  void link_state(LinkId link, bool up) override { base_.link_state(link, up); }
  std::string cause_of_cut(Actor from, Actor to) const override { return base_.cause_of_cut(from, to); }
  std::string actor_name(Actor actor) const override { return base_.actor_name(actor); }

 private:
  Machine& base_;
  const PacketNetwork& network_;
  mutable std::map<const Leg*, std::vector<Leg>> legs_;  // by the machine's own: routes refer to them

  Picoseconds of_cables(std::span<const LinkUse>) const;
};

}  // namespace trainyard
