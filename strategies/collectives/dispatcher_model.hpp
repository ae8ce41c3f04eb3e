#pragma once
#include <memory>

#include "models/networks/layers/expert_routing.hpp"
#include "models/software/expert_dispatcher.hpp"
#include "strategies/collectives/collective_settings.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {

/// Returns the cost model of an all-to-all between expert ranks as a dispatcher does it. Rows for another node leave
/// once, by the sender's own adapter, and go on there by NVLink. `library` is the model of the collectives, from which
/// the start-up time is taken. Throws UserError at `where` if nodes have no NVLink.
std::shared_ptr<const CollectiveModel> dispatcher_model(const ExpertDispatcher&, const ExpertRouting&,
                                                        const ClusterSpec&,
                                                        std::shared_ptr<const CollectiveModel> library,
                                                        const Place& where);

}  // namespace trainyard
