#pragma once
#include <span>

#include "sim/index.hpp"
#include "sim/machine.hpp"

namespace trainyard::execution {

/// Is it this link, of which so much of its capacity is used, that limits what goes over it, and not `before` (−1: none
/// yet)? One below its capacity limits nobody: then the rate cap does. Of several that are full it is the first by the name
/// of their kind, and of one kind the first on the route, whichever rounding leaves fuller.
inline bool limits(LinkId link, double used, LinkId before, std::span<const Link> links) {
  constexpr double full = 1 - 1e-6;
  return used > full && (before < 0 || links[position(link)].kind < links[position(before)].kind);
}

}  // namespace trainyard::execution
