#pragma once
#include <string>
#include <vector>

#include "sim/machine.hpp"

namespace trainyard {

/// Places actors on those of another machine, several on one if desired: for example a worker and a server on one GPU.
/// The work of each takes as long as it would alone. Messages within a place take no time. Interference counts only for
/// the first actor of a place.
class PlacedMachine : public Machine, private Contention {
 public:
  struct PlacedActor {
    Actor place = 0;   ///< the actor of the base machine whose place it shares
    std::string name;  ///< "": the name of that actor
  };
  PlacedMachine(Machine& base, std::vector<PlacedActor> actors);

  std::span<const Link> links() const override { return base_.links(); }
  Cost price(const Work& work, Actor actor) const override { return base_.price(work, place(actor)); }
  Route route(Actor from, Actor to, PathClass path_class) const override;
  const Contention* contention() const override { return base_.contention() ? this : nullptr; }
  double speed(Actor actor, Kind kind, KindSet active) const override;
  std::span<const LinkId> ports(Actor actor) const override;
  void link_state(LinkId link, bool up) override { base_.link_state(link, up); }
  std::string cause_of_cut(Actor from, Actor to) const override { return base_.cause_of_cut(place(from), place(to)); }
  std::string actor_name(Actor) const override;

  Actor place(Actor actor) const { return actors_.at(static_cast<std::size_t>(actor)).place; }

 private:
  Machine& base_;
  std::vector<PlacedActor> actors_;
  std::vector<bool> first_;  // indexed by actor: it is the first at its place
};

}  // namespace trainyard
