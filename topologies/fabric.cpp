#include "topologies/fabric.hpp"

namespace trainyard {

Registry<FabricReader>& fabric_types() {
  static Registry<FabricReader> registry{"fabric"};
  return registry;
}

std::shared_ptr<const Fabric> make_fabric(const std::string& type, std::string_view keys) {
  const Node node = parse_document(keys, "fabric " + type);
  Fields fields(node, "fabric " + type);
  std::shared_ptr<const Fabric> fabric = fabric_types().find(type, node.place)(fields);
  fields.finish();
  return fabric;
}

}  // namespace trainyard
