#pragma once
#include <string>
#include <vector>

#include "models/reading/document.hpp"
#include "sim/executor/changes.hpp"
#include "topologies/machines/straggler_machine.hpp"

namespace trainyard {

/// A link that has another rate for a time.
struct LinkFault {
  std::string link;
  double factor = 1;  ///< of its rate
  Seconds from, to;   ///< to: 0 for ever
  Place place, from_place;
};

/// What of a scenario's section `faults` makes things slower, not fail.
struct SlowParts {
  std::vector<Straggler> stragglers;
  std::vector<LinkFault> links;
};

/// Reads of `faults`: `stragglers` (a map or a list of maps: {kind: constant | uniform | lognormal | exponential-tail |
/// one-slow | periodic, seed, ranks: […] and what the kind asks for: factor or factors; spread; sigma; mean; rank and
/// factor; period, busy and factor}) and `links` ([{link: NAME, factor, from, to}]; NAME as `show --machine` prints it; "A - B" is both ways).
/// Throws UserError with the place.
SlowParts read_slow_parts(Fields& faults, int ranks);

/// The changes of a machine's links. Throws UserError for a link that is not there.
std::vector<LinkChange> link_changes(const SlowParts&, std::span<const Link>);
/// Throws UserError for a fault that begins after the end of what is simulated: it would change nothing.
void require_begun(const SlowParts&, Seconds end);

}  // namespace trainyard
