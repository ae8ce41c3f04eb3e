#pragma once
#include <string>
#include <vector>

#include "models/energy/prices.hpp"
#include "models/hardware/node.hpp"
#include "models/reading/catalog.hpp"

namespace trainyard {

/// The types of node that are looked at: those of these names, which may be those of chips, for all nodes that have them;
/// without names all of the catalog that multiply in bf16, can be joined, and are priced. `left_out`: those that are not,
/// and why. Throws UserError.
std::vector<NodeType> sized_nodes(const Catalog&, const std::vector<std::string>& names, const Prices&,
                                  std::vector<std::string>& left_out);

/// A scenario on so many nodes, of a model, "" of its own; to search for plans without what follows from a step: failures,
/// the training's length. Else the plan is the least that can be read.
Node sized_scenario(const Node& document, const std::string& model, const NodeType&, int nodes, bool searched);

}  // namespace trainyard
