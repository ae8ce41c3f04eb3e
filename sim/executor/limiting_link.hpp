#pragma once
#include <span>

#include "sim/index.hpp"
#include "sim/machine.hpp"

namespace trainyard::execution {

/// Returns true if `link` limits a flow, rather than `before`, which was found so far (−1: none). `used` is the share of
/// the capacity of `link` that is in use. A link that is not full limits nobody: the rate cap does. If several links are
/// full, the first by the name of their kind limits, and among links of one kind the first on the route. So rounding
/// does not decide.
inline bool limits(LinkId link, double used, LinkId before, std::span<const Link> links) {
  constexpr double full = 1 - 1e-6;
  return used > full && (before < 0 || links[position(link)].kind < links[position(before)].kind);
}

}  // namespace trainyard::execution
