#pragma once
#include <utility>

#include "strategies/collectives/collective.hpp"

namespace trainyard {

/// The algorithm's messages summed up: in each phase one flow from a rank to each of its peers (on each channel), with
/// the bytes of all and as many latencies as the rank sends messages there. Ranks meet before and after, as they would
/// by waiting for each other in every step. On an idle machine whose links are all alike it takes as long as the
/// messages; elsewhere a step no longer waits for its slowest message, but the sum of all steps does.
Ops flow_ops(const Collective&, Local, Bytes);

/// What the settings' model of a library takes: all meet, then one flow goes round a ring (between nodes, round as many
/// rings as a node has ranks, which leave by another one each; of an all-to-all, between all pairs), no faster than the
/// model says. Values are not exchanged.
Ops modelled_ops(Operation, Local, Bytes);
ModelledJoin modelled_join(Operation, const CollectiveSettings&, int ranks, Bytes);
/// Which collective a modelled join is, for whoever looks at it: kept as its work, which nobody prices. An operation of no
/// bytes: of other joins.
Work of_collective(Operation, Bytes);
std::pair<Operation, Bytes> collective_of(const Work&);
/// The links by which the rate of a modelled collective goes. Throws InternalError for `automatic`.
LinkKind limit_of(PathClass of_join);
/// Those rings or pairs, for programs to name.
ModelledFlow modelled_flow(Operation, const CollectiveSettings&, const std::vector<Actor>& members);

}  // namespace trainyard
