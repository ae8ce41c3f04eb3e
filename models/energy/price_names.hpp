#pragma once
#include <string>
#include <vector>

#include "models/reading/catalog.hpp"

namespace trainyard {

/// Checks that each name of a section of prices is that of a node, a GPU or a switch of the catalog, whichever its key
/// takes. `defined`: names of nodes and GPUs that a scenario defines itself. Names that begin with "custom-" are those of
/// unnamed ones. Throws UserError at the place of the first other name, with the nearest one, or with what the key takes
/// if the name is that of a part of another kind.
void check_price_names(const Node& prices, const Catalog&, const std::vector<std::string>& defined = {});

/// Returns the name of the GPU of a type of node; "": there is no such type, or its entry states none itself.
std::string gpu_of_node(const Catalog&, const std::string& node);

/// Lists all scalars of a section of a scenario, such as its cluster: among them are the names that it defines.
std::vector<std::string> names_in_section(const Node* section);

}  // namespace trainyard
