#pragma once
#include <string>

#include "sim/folding/fold_graph.hpp"

namespace trainyard::folding {

/// Checks conditions (A) to (D) of README.md exactly: compares every actor, group and link with the first of its class.
/// Returns "", or a sentence about the first violation. Linear in the edges, apart from sorting those of each element.
std::string broken_condition(const FoldGraph&, const Partition&);

}  // namespace trainyard::folding
