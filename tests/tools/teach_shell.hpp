#pragma once
#include <string>

#include "tests/tools/topo_shell.hpp"

namespace trainyard::test {

/// A folder in which `trainyard teach` runs.
struct Teacher : TopoFolder {
  TopoAnswer teach(const std::string& arguments) const { return trainyard("teach " + arguments); }
  void check_refused(const std::string& arguments, const std::string& words) const {
    TopoFolder::check_refused("teach " + arguments, words);
  }
};

}  // namespace trainyard::test
