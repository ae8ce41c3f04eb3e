#include "scenarios/src/running/node_power.hpp"

#include <algorithm>

namespace trainyard {

Watts provided_power(const NodeType& node, const Catalog& catalog) {
  const Watts parts = node.most_power();
  try {
    const Node entry = catalog.resolve("node", Node::scalar_node(node.name));
    const Node* rated = entry.find("rated_power");
    if (rated && rated->kind == Node::Kind::map) rated = rated->find("value");
    return rated && rated->kind == Node::Kind::scalar ? std::max(parts, parse_power(rated->scalar)) : parts;
  } catch (const UserError&) {  // the scenario defines the node itself
    return parts;
  }
}

}  // namespace trainyard
