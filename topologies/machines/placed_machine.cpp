#include "topologies/machines/placed_machine.hpp"

#include <set>

namespace trainyard {

PlacedMachine::PlacedMachine(Machine& base, std::vector<PlacedActor> actors) : base_(base), actors_(std::move(actors)) {
  std::set<Actor> occupied;
  for (const PlacedActor& actor : actors_) first_.push_back(occupied.insert(actor.place).second);
}

Route PlacedMachine::route(Actor from, Actor to, PathClass path_class) const {
  if (place(from) == place(to)) return {};
  return base_.route(place(from), place(to), path_class);
}

double PlacedMachine::speed(Actor actor, Kind kind, KindSet active) const {
  return first_.at(static_cast<std::size_t>(actor)) ? base_.contention()->speed(place(actor), kind, active) : 1;
}

std::span<const LinkId> PlacedMachine::ports(Actor actor) const {
  return first_.at(static_cast<std::size_t>(actor)) ? base_.contention()->ports(place(actor))
                                                    : std::span<const LinkId>{};
}

std::string PlacedMachine::actor_name(Actor actor) const {
  const PlacedActor& placed = actors_.at(static_cast<std::size_t>(actor));
  const std::string base_name = base_.actor_name(placed.place);
  return placed.name.empty() ? base_name : placed.name + " (" + base_name + ")";
}

}  // namespace trainyard
