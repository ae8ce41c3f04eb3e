#include "scenarios/src/answer/json_reference.hpp"

namespace trainyard {

Registry<JsonReference>& json_references() {
  static Registry<JsonReference> registry{"command with --json"};
  return registry;
}

}  // namespace trainyard
