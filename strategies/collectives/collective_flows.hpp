#pragma once
#include <utility>

#include "strategies/collectives/collective.hpp"

namespace trainyard {

/// Yields the algorithm's messages summed up into flows. In each phase (and on each channel) one flow goes from a rank
/// to each of its peers. It carries the bytes of all messages to that peer and pays one latency for each of them.
/// Ranks meet before and after, which replaces their waiting for each other in every step. On an idle machine with
/// equal links the flows take as long as the messages would. On other machines no step waits for its slowest message;
/// only the sum of all steps does.
Ops flow_ops(const Collective&, Local, Bytes);

/// Yields one operation for the whole collective, as slow as the settings' model of a library predicts. All members
/// meet, then one flow goes round a ring, no faster than the model's rate. Between nodes the flow goes round as many
/// rings as a node has ranks, and each ring leaves the node by another rank. An all-to-all flows between all pairs
/// instead. Values are not exchanged.
Ops modelled_ops(Operation, Local, Bytes);
ModelledJoin modelled_join(Operation, const CollectiveSettings&, int ranks, Bytes);
/// Names the collective of a modelled join to observers, with the part of its latency that adapters and switches between
/// nodes take. Both are stored as the work of the join, which nothing prices. Zero bytes mean that the join is no
/// modelled collective.
Work collective_work(Operation, Bytes, Seconds network_latency);
std::pair<Operation, Bytes> collective_of(const Work&);
Seconds network_latency_of(const Work&);
/// Scales the stored part of the latency, for a part of a collective or a slower one.
Work scale_network_latency(Work, double factor);
/// Returns the kind of links that limits the rate of a modelled collective. Throws InternalError for `automatic`.
LinkKind limit_of(PathClass join_path);
/// Number of rings among which a modelled collective divides its data. A ring of the settings counts its weight for
/// each of the two directions.
int modelled_rings(const CollectiveSettings&, int ranks);
/// Returns the edges of a modelled collective (rings, pairs or a star), which programs name as a group flow.
ModelledFlow modelled_flow(Operation, const CollectiveSettings&, const std::vector<Actor>& members);

}  // namespace trainyard
