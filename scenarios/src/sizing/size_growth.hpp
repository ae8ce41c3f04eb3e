#pragma once
#include <vector>

#include "scenarios/src/sizing/size_islands.hpp"

namespace trainyard {

/// If the nodes of the verdict's purchase are delivered in batches: computes when the training ends if it begins on the
/// first batch and goes on with more nodes at each further one. Each phase has the best plan on its nodes, and does the
/// part of the training that its time is of the whole training on these nodes. The restarts between phases are not
/// counted. Else leaves the answer as it is. Throws Interruption.
void grow_with_deliveries(SizeAnswer&, SizeQuestion&, const std::vector<SizeCase>&, const IslandSearches&);

template <class T>
class JsonFields;
JsonFields<SizeGrowth> size_growth_fields();

}  // namespace trainyard
