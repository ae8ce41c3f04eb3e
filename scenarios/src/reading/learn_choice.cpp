#include "scenarios/src/reading/learn_choice.hpp"

namespace trainyard {

const std::vector<std::string>& scaling_names() {
  static const std::vector<std::string> names{"none", "square-root", "linear"};
  return names;
}

}  // namespace trainyard
