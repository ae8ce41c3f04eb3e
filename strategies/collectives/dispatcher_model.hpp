#pragma once
#include <memory>

#include "models/networks/layers/expert_routing.hpp"
#include "models/software/expert_dispatcher.hpp"
#include "strategies/collectives/collective_settings.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {

/// All-to-all of expert ranks as a dispatcher does it: of what a rank sends, rows for other nodes leave by its own
/// adapter once a node, and go on there by NVLink. `library`: the collectives' own, whose start-up it has. Throws
/// UserError at `where` for nodes without NVLink.
std::shared_ptr<const CollectiveModel> dispatcher_model(const ExpertDispatcher&, const ExpertRouting&,
                                                        const ClusterSpec&,
                                                        std::shared_ptr<const CollectiveModel> library,
                                                        const Place& where);

}  // namespace trainyard
