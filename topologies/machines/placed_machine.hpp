#pragma once
#include <string>
#include <utility>
#include <vector>

#include "sim/machine.hpp"

namespace trainyard {

/// A machine on whose actors other ones are placed, several on one where wanted: a worker and a server on one GPU. Each
/// takes the time that its work takes there alone; messages between two at one place take none. Interference and the
/// ports that it slows count for the first actor of a place only.
class PlacedMachine : public Machine {
 public:
  struct Placed {
    Actor at = 0;      ///< whose place it has
    std::string name;  ///< "": the name of that one
  };
  PlacedMachine(Machine& beneath, std::vector<Placed> actors);

  std::span<const Link> links() const override { return beneath_.links(); }
  Cost price(const Work& work, Actor actor) const override { return beneath_.price(work, place(actor)); }
  Route route(Actor from, Actor to, PathClass path) const override;
  bool interferes() const override { return beneath_.interferes(); }
  double speed(Actor actor, Kind kind, KindSet active) const override;
  std::span<const LinkId> ports(Actor actor) const override;
  void link_state(LinkId link, bool up) override { beneath_.link_state(link, up); }
  std::string actor_name(Actor) const override;

  Actor place(Actor actor) const { return actors_.at(static_cast<std::size_t>(actor)).at; }

 private:
  Machine& beneath_;
  std::vector<Placed> actors_;
  std::vector<bool> first_;  // at its place
};

}  // namespace trainyard
