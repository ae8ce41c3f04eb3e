#pragma once

namespace trainyard {

struct ClusterSpec;

/// Returns the number of nodes below one group of the highest level of switches that divides the cluster: a pod, or a
/// leaf if there are no pods. 0: all nodes are below one switch, or they are not divided into equal groups (hashed
/// routes, removed parts, several types of nodes, pods of rails).
int nodes_of_pod(const ClusterSpec&);

}  // namespace trainyard
