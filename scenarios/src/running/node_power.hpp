#pragma once
#include "models/hardware/node_type.hpp"
#include "models/reading/catalog.hpp"

namespace trainyard {

/// Returns the power that a site provides for a node, and by which space is paid: what its maker rates it for
/// (`rated_power` of its entry in the catalog), or the power of its parts if that is more or no rating is stated.
Watts provided_power(const NodeType&, const Catalog&);

}  // namespace trainyard
