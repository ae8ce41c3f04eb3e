#pragma once
#include <string>
#include <vector>

#include "models/reading/document.hpp"
#include "sim/executor/changes.hpp"
#include "topologies/machines/straggler_machine.hpp"

namespace trainyard {

/// A time in which a link has a lower rate.
struct LinkFault {
  std::string link;
  double factor = 1;  ///< factor on its rate, 0 to 1
  Seconds from, to;   ///< `to` 0: the rate stays low for ever
  Place place, from_place;
};

/// The parts of a scenario's section `faults` that slow ranks and links down.
struct SlowParts {
  std::vector<Straggler> stragglers;
  std::vector<LinkFault> links;
};

/// Reads `stragglers` (a map or a list of maps, with the keys of their kinds) and `links` of `faults`. A link has its
/// name in `show --machine`; "A - B" means both directions. Throws UserError with the place.
SlowParts read_slow_parts(Fields& faults, int ranks);

/// Returns the changes of a machine's links. Throws UserError for an unknown link.
std::vector<LinkChange> link_changes(const SlowParts&, std::span<const Link>);
/// Throws UserError for a fault that begins after the end of the simulated steps: it would change nothing.
void require_begun(const SlowParts&, Seconds end);

}  // namespace trainyard
