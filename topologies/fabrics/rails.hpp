#pragma once

namespace trainyard {

struct ClusterSpec;

/// Returns true if the leaves of the cluster's folded Clos take the adapters of one place in their nodes.
bool is_by_rails(const ClusterSpec&);

}  // namespace trainyard
