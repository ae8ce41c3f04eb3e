#include "scenarios/src/studies/mesh_what_if.hpp"

#include <set>

#include "scenarios/src/running/faster_fields.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "sim/error.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {
namespace {

/// Number of nodes that the pipeline of rank 0 crosses.
std::size_t nodes_of_pipeline(const Mesh& mesh, const ClusterSpec& cluster) {
  std::set<int> nodes;
  for (const int rank : mesh.group(0, Axis::pipeline)) nodes.insert(cluster.node_of_gpu(rank));
  return nodes.size();
}

}  // namespace

std::optional<WhatIf> mesh_what_if(const Scenario& s, const SimulateOptions& base,
                                   std::vector<RefusedWhatIf>& refused) {
  const Mesh& mesh = s.plan.mesh;
  const Node* plan = s.document.find("plan");
  const bool states_order = mesh.order != Mesh{}.order || (plan && plan->find("mesh_order"));
  if (mesh.pipeline == 1 || !mesh.widths.empty() || states_order || !has_sites(s.cluster)) return {};
  Mesh other = mesh;
  other.order = {Axis::tensor, Axis::context, Axis::pipeline, Axis::data};
  if (nodes_of_pipeline(other, s.cluster) >= nodes_of_pipeline(mesh, s.cluster)) return {};
  const Overrides sets{{"plan.mesh_order", "[tensor, context, pipeline, data]"}};
  try {
    WhatIf row;
    row.resource_class = kMeshOrder;
    row.step_time = simulate_here(read_again(s, sets), {.critical_path = false,
                                                        .kernels_as_with_path = base.critical_path,
                                                        .transport = base.transport,
                                                        .folding = base.folding})
                        .step_time;
    row.sets = as_sets(sets);
    return row;
  } catch (const UserError& e) {  // a schedule or a group of ranks needs the other order
    refused.push_back({kMeshOrder, 1, e.what()});
    return {};
  }
}

}  // namespace trainyard
