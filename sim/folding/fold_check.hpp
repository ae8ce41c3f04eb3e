#pragma once
#include <string>

#include "sim/folding/fold_graph.hpp"

namespace trainyard::folding {

/// Conditions (A) to (D) of README.md, exactly: every actor, group and link against the first of its class. "" where they
/// hold; else the first that does not, in words. Linear in the edges, but for sorting each element's own.
std::string broken_condition(const FoldGraph&, const Partition&);

}  // namespace trainyard::folding
