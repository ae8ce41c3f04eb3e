#pragma once
#include "topologies/fabric.hpp"

namespace trainyard {

/// A fabric by the name of its type, with its own keys as YAML: `make_fabric("ring", "{wrap: false}")`.
inline std::shared_ptr<const Fabric> make_fabric(const std::string& type, std::string_view keys = "{}") {
  const Node node = parse_document(keys, "fabric " + type);
  Fields fields(node, "fabric " + type);
  std::shared_ptr<const Fabric> fabric = fabric_types().find(type, node.place)(fields);
  fields.finish();
  return fabric;
}

}  // namespace trainyard
