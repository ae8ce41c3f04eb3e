#pragma once
#include <memory>
#include <vector>

#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

/// A network of which all blocks are recomputed, with those alone left so that begin a virtual stage, as many as the plan
/// says; `stages`: the layers of each virtual stage. The others keep their activations, but for the parts that
/// `Sharding::remade` names. Throws UserError where a stage has fewer.
std::shared_ptr<const Network> recomputed_in_part(const Network& all, const Scenario&,
                                                  const std::vector<std::vector<int>>& stages);

}  // namespace trainyard
