#pragma once
#include <span>

#include "sim/index.hpp"
#include "sim/machine.hpp"

namespace trainyard::execution {

/// Returns true if `link`, of whose capacity the share `used` is in use, limits a flow, rather than `before` (−1: none
/// yet). A link below its capacity limits nobody: the rate cap does. If several links are full, the first by the name
/// of their kind limits, and among links of one kind the first on the route, so that rounding does not decide.
inline bool limits(LinkId link, double used, LinkId before, std::span<const Link> links) {
  constexpr double full = 1 - 1e-6;
  return used > full && (before < 0 || links[position(link)].kind < links[position(before)].kind);
}

}  // namespace trainyard::execution
