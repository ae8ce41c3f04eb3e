#pragma once
#include "models/hardware/input_supply.hpp"
#include "models/reading/catalog.hpp"
#include "strategies/plan/input_plan.hpp"
#include "strategies/plan/mesh.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {

/// The section `input` of a scenario: how samples get to the GPUs.
struct InputChoice {
  InputSupply supply;
  InputOverlap overlap = InputOverlap::full;
  int prefetch = 2;
  Sources sources;
  Place place;
  bool is_used() const { return supply.is_used(); }
};

/// Returns the groups of ranks of the first pipeline stage that get the same samples. Each group has one loader.
std::vector<std::vector<Actor>> loader_groups(const Mesh&);

/// Reads the section `input`: data set, storage, decoding and cache. Throws UserError with the place.
InputChoice read_input(const Node&, const Catalog&, const ClusterSpec&, const Mesh&);

/// Returns the plan of these batches for programs, without its actors. `groups_a_node`: number of loaders that share a
/// node.
InputPlan input_plan(const InputChoice&, int context, std::int64_t micro_batch_size, int batches, int groups_a_node);

}  // namespace trainyard
