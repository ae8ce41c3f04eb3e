#pragma once
#include "models/hardware/input_supply.hpp"
#include "models/reading/catalog.hpp"
#include "strategies/plan/input_plan.hpp"
#include "strategies/plan/mesh.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {

/// What a scenario says about how samples get to the GPUs.
struct InputChoice {
  InputSupply supply;
  InputOverlap overlap = InputOverlap::full;
  int prefetch = 2;
  Sources sources;
  Place place;
  bool used() const { return supply.used(); }
};

/// Ranks with the same samples, in the first stage of the pipeline: one loader's each.
std::vector<std::vector<Actor>> loader_groups(const Mesh&);

/// Reads `input: {dataset: {samples, sample_size, files: records | small, record_file}, storage: local | NAME | {…},
/// shared, port, over_adapters, readers, decode: {workers, rate | time, cores}, sample_on_gpu, prefetch, cache: {size,
/// policy: lru | pinned}, order: sequential | shuffled, epoch, overlap: none | prefetch | full}`. Throws UserError with
/// the place.
InputChoice read_input(const Node&, const Catalog&, const ClusterSpec&, const Mesh&);

/// The programs' plan of these batches, whose actors are still to be said; `groups_a_node`: loaders that share a node.
InputPlan input_plan(const InputChoice&, int context, std::int64_t micro_batch_size, int batches, int groups_a_node);

}  // namespace trainyard
