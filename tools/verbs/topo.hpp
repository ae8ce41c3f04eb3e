#pragma once
#include <string>
#include <vector>

#include "models/reading/registry.hpp"

namespace trainyard {

/// A verb below `trainyard topo`. Each is one file (topo_<name>.cpp), which registers itself.
struct TopoVerb {
  std::string name;
  std::string summary;
  int (*run)(const std::vector<std::string>& words) = nullptr;  ///< the words after it; returns the exit code
};
Registry<TopoVerb>& topo_verbs();

struct RegisterTopoVerb {
  RegisterTopoVerb(const char* name, const char* summary, int (*run)(const std::vector<std::string>&)) {
    topo_verbs().add(name, {name, summary, run});
  }
};

}  // namespace trainyard
