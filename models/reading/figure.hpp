#pragma once
#include <string>
#include <vector>

namespace trainyard {

/// Origin of a figure of the catalog, as `show` and the trust line print it.
struct FigureSource {
  std::string figure;  ///< dotted path, "gpu a100-sxm4-80gb: memory_bandwidth"
  std::string value;   ///< as it was written
  std::string source;  ///< the full text of the source
  bool unverified = false;
};
using Sources = std::vector<FigureSource>;

}  // namespace trainyard
