#include "topologies/fabric.hpp"

namespace trainyard {

std::vector<int> ChipPlaces::coordinates(int number) const {
  const int slice = static_cast<int>(position.size());
  int rest = position[number % slice];
  std::vector<int> result;
  for (const int length : dims) {
    result.push_back(rest % length);
    rest /= length;
  }
  result.push_back(number / slice);
  return result;
}

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
