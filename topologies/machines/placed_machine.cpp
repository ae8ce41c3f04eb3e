#include "topologies/machines/placed_machine.hpp"

#include <set>

namespace trainyard {

PlacedMachine::PlacedMachine(Machine& beneath, std::vector<Placed> actors)
    : beneath_(beneath), actors_(std::move(actors)) {
  std::set<Actor> taken;
  for (const Placed& actor : actors_) first_.push_back(taken.insert(actor.at).second);
}

Route PlacedMachine::route(Actor from, Actor to, PathClass path) const {
  if (place(from) == place(to)) return {};
  return beneath_.route(place(from), place(to), path);
}

double PlacedMachine::speed(Actor actor, Kind kind, KindSet active) const {
  return first_.at(static_cast<std::size_t>(actor)) ? beneath_.speed(place(actor), kind, active) : 1;
}

std::span<const LinkId> PlacedMachine::ports(Actor actor) const {
  return first_.at(static_cast<std::size_t>(actor)) ? beneath_.ports(place(actor)) : std::span<const LinkId>{};
}

std::string PlacedMachine::actor_name(Actor actor) const {
  const Placed& placed = actors_.at(static_cast<std::size_t>(actor));
  const std::string at = beneath_.actor_name(placed.at);
  return placed.name.empty() ? at : placed.name + " (" + at + ")";
}

}  // namespace trainyard
