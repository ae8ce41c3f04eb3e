#pragma once
#include <string>

#include "scenarios/src/collectives/collective_run.hpp"

namespace trainyard::test {

/// A collective of this size by the named algorithm. All other options have their defaults.
inline CollectiveRunOptions collective_options(Operation operation, const std::string& algorithm, int ranks,
                                               Bytes size) {
  CollectiveRunOptions o;
  o.operation = operation;
  o.algorithm = algorithm;
  o.ranks = ranks;
  o.options.size = size;
  return o;
}

}  // namespace trainyard::test
