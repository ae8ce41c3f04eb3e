#include "tools/verbs/verbs.hpp"

namespace trainyard {

Registry<Verb>& verbs() {
  static Registry<Verb> registry{"verb"};
  return registry;
}

}  // namespace trainyard
