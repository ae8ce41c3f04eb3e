#pragma once
#include <string>
#include <vector>

#include "scenarios/src/reading/scenario.hpp"
#include "topologies/placement.hpp"

namespace trainyard {

/// A training among several on one cluster.
struct SharedJob {
  Scenario scenario;       ///< its nodes as a cluster of their own
  std::vector<int> nodes;  ///< numbers of its nodes; empty: `placement` chooses them
  Placement placement = Placement::packed;
  Seconds start;  ///< time at which it begins
  Place place;
  int node_count() const { return scenario.cluster.nodes; }
};

/// A cluster and the jobs that run on it at the same time.
struct SharedCluster {
  std::string name;
  ClusterSpec cluster;
  std::vector<SharedJob> jobs;
  Place place;  ///< the list of jobs
};

/// Reads `cluster`, `software` (for jobs without one) and `jobs`: a list of maps with `nodes`, `placement`, `start`,
/// `scenario` (a file that the job's other keys change) and the keys of a scenario. A job's cluster is that many nodes
/// of the shared one. The overrides apply to the document. Throws UserError with the place for jobs that do not fit,
/// and for what jobs that share a cluster cannot have.
SharedCluster read_shared_cluster(Node document, const std::string& name, const Overrides& = {});

}  // namespace trainyard
