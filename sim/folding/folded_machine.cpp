#include "sim/folding/folded_machine.hpp"

#include <fmt/format.h>

#include "sim/error.hpp"

namespace trainyard {

FoldedMachine::FoldedMachine(Machine& machine, const Fold& fold) : machine_(machine), fold_(fold) {
  for (const Fold::LinkClass& of : fold.links()) {
    Link link = machine.links()[static_cast<std::size_t>(of.link)];
    if (of.links > 1) link.name += fmt::format(" ×{}", of.links);
    links_.push_back(std::move(link));
  }
}

Route FoldedMachine::route(Actor from, Actor to, PathClass path) const {
  if (path != PathClass::automatic) throw InternalError("a folded program names a path");
  return fold_.route(from, to);
}

std::string FoldedMachine::actor_name(Actor c) const {
  const std::string name = machine_.actor_name(fold_.representative(c));
  return fold_.size(c) > 1 ? fmt::format("{} ×{}", name, fold_.size(c)) : name;
}

}  // namespace trainyard
