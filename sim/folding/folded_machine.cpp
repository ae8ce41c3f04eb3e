#include "sim/folding/folded_machine.hpp"

#include <fmt/format.h>

#include "sim/error.hpp"

namespace trainyard {

FoldedMachine::FoldedMachine(Machine& machine, const Fold& fold) : machine_(machine), fold_(fold) {
  for (const Fold::LinkClass& link_class : fold.links()) {
    Link link = machine.links()[static_cast<std::size_t>(link_class.link)];
    if (link_class.links > 1) link.name = fmt::format("{} ×{}", link.name, link_class.links);
    links_.push_back(std::move(link));
  }
}

Route FoldedMachine::route(Actor from, Actor to, PathClass path) const {
  if (path != PathClass::automatic) throw InternalError("a folded program asks for a path class");
  return fold_.route(from, to);
}

std::string FoldedMachine::actor_name(Actor c) const {
  const std::string name = machine_.actor_name(fold_.representative(c));
  return fold_.size(c) > 1 ? fmt::format("{} ×{}", name, fold_.size(c)) : name;
}

}  // namespace trainyard
